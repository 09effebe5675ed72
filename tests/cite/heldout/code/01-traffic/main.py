print("traffic model")
