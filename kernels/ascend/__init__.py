"""The data path of attention on Ascend: Cube, two Vectors, three workspaces, flags."""
