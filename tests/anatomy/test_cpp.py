"""What read_cpp finds in C++: tiny sources written here, then the real pins."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

import srcmap.anatomy.cpp
import srcmap.anatomy.markdown
from srcmap.anatomy.cpp import read_cpp
from srcmap.model import FileAnatomy, Lines
from srcmap.parse.treesitter import Grammar, parse, query_names

REWRITE = """\
namespace tvm {
namespace tl {

// Copies that cross the cores.
class Rerouter : public Mutator {
private:
  // What becomes of them.
  std::unordered_map<std::string, std::string> table_ = {
      {"copy_ub_to_l1", "copy_ub_to_gm"}, {"copy_l0c_to_ub", "copy_l0c_to_gm"}};

  std::unordered_set<std::string> known_ = {"copy_gm_to_l1", "copy_l0c_to_gm"};
};

} // namespace tl
} // namespace tvm
"""

REGISTRATIONS = """\
namespace tvm {
namespace tl {

tvm::transform::Pass Fold() { return CreatePass(run, 0, "tl.Fold", {}); }

// The front end asks for it by this name.
TVM_REGISTER_GLOBAL("tl.transform.Fold")
    .set_body_typed(Fold);

TVM_FFI_STATIC_INIT_BLOCK() {
  namespace refl = tvm::ffi::reflection;
  refl::GlobalDef().def("tl.cuda.transform.Unfold", []() { return Unfold(); });
}

TVM_FFI_STATIC_INIT_BLOCK({
  namespace refl = tvm::ffi::reflection;
  refl::GlobalDef().def("tl.transform.Hold", Hold);
});

} // namespace tl
} // namespace tvm
"""

INFINITY = """\
namespace tvm {

// Turns the call into a constant.
PrimExpr lower_it(PrimExpr e) {
  return FloatImm(e.dtype(), huge);
}

TVM_REGISTER_OP("tl.infinity")
    .set_num_inputs(1)
    .set_attr<FLowerIntrinsic>("cuda.FLowerIntrinsic", lower_it)
    .set_attr<FLowerIntrinsic>("hip.FLowerIntrinsic", lower_it);

} // namespace tvm
"""


def found(source: str) -> list[tuple[str, str, Lines]]:
    sites = anatomy(source).kernels[0].sites
    return [(site.concept, site.label, site.lines) for site in sites]


def anatomy(source: str) -> FileAnatomy:
    return read_cpp(source.encode(), "src/a.cc")


def test_a_table_that_sends_copies_to_global_memory() -> None:
    (site,) = anatomy(REWRITE).kernels[0].sites
    assert (site.concept, site.label, site.lines) == ("workspace-rewrite", "", Lines(8, 9))
    assert site.context == Lines(7, 9)
    assert site.qualname == "tvm::tl::Rerouter"
    assert site.confidence == "high"
    assert site.detail == "copy_ub_to_l1 -> copy_ub_to_gm, copy_l0c_to_ub -> copy_l0c_to_gm"
    assert site.proof[0].note.key == "trees.copies-rerouted"


@pytest.mark.parametrize(
    "declaration",
    [
        'static const Map kT = {{"copy_l0c_to_ub", "copy_l0c_to_gm"}};',
        'const std::map<S, S> kT{{"mv_L0C_to_UB", "mv_L0C_to_GM"}};',
        'Map kT = {{"copy_l0c_to_ub", {"copy_l0c_to_gm", "copy_gm_to_ub"}}};',
        'Map kT = {std::make_pair("copy_l0c_to_ub", "copy_l0c_to_gm")};',
        'Map kT = {{"tl::ascend::copy_ub_to_l1", "tl::ascend::copy_ub_to_workspace"}};',
        'void f() { Map t = {{"copy_l0c_to_ub", /* by */ "copy_l0c_to_gm"}}; }',
        'Map f() { return {{"copy_l0c_to_ub", "copy_l0c_to_gm"}}; }',
    ],
)
def test_the_table_in_other_clothes(declaration: str) -> None:
    assert found(f"\n{declaration}\n") == [("workspace-rewrite", "", Lines(2, 2))]


@pytest.mark.parametrize(
    "declaration",
    [
        'Map core = {{"copy_gm_to_l1", "cube"}, {"copy_ub_to_gm", "vec"}};',
        'Map n = {{"copy_l0c_to_gm", 3}, {"copy_gm_to_l1", 3}};',
        'Map s = {{"copy_ub_to_l1", Scope::L1}, {"copy_l0c_to_gm", Scope::Ub}};',
        'Set s = {"copy_ub_to_l1", "copy_ub_to_gm"};',
        'Map same = {{"copy_ub_to_gm", "copy_ub_to_gm"}};',
        'Map other = {{"copy_ub_to_l1", "copy_l0c_to_gm"}};',
        'Map casts = {{"cast_half_to_float", "cast_half_to_double"}};',
        'Map mixed = {{"copy_l0c_to_ub", "copy_l0c_to_gm"}, {"gemm", "cube"}};',
        '// Map t = {{"copy_l0c_to_ub", "copy_l0c_to_gm"}};',
        '#if 0\nconst char *s = "{{\\"copy_l0c_to_ub\\", \\"copy_l0c_to_gm\\"}}";\n#endif',
    ],
)
def test_tables_that_reroute_nothing(declaration: str) -> None:
    assert found(declaration + "\n") == []


def test_registrations_of_every_kind() -> None:
    assert found(REGISTRATIONS) == [
        ("pass-registration", "pass=Fold", Lines(7, 8)),
        ("pass-registration", "pass=Unfold", Lines(10, 13)),
        ("pass-registration", "pass=Hold", Lines(15, 18)),
    ]
    first = anatomy(REGISTRATIONS).kernels[0].sites[0]
    assert first.context == Lines(6, 8)
    assert first.qualname == "tvm::tl"
    assert first.detail == "tl.transform.Fold"


def test_the_only_registration_needs_no_label() -> None:
    source = 'TVM_REGISTER_GLOBAL("tl.transform.Fold").set_body_typed(Fold);\n'
    assert found(source) == [("pass-registration", "", Lines(1, 1))]


@pytest.mark.parametrize(
    "source",
    [
        'TVM_REGISTER_PASS_CONFIG_OPTION("tl.transform.Fold", Attrs);',
        'class A { TVM_FFI_DECLARE_OBJECT_INFO_FINAL("tl.transform.FoldConfig", A, B); };',
        'TVM_REGISTER_GLOBAL("tir.transform.Fold").set_body_typed(Fold);',
        'TVM_REGISTER_GLOBAL("tl.Fold").set_body_typed(Fold);',
        'void f() { LOG(FATAL) << "run tl.transform.Fold first"; }',
        'Pass f() { return Registry::Get("tl.transform.Fold"); }',
        'void f() { refl::GlobalDef().def("tl.transform.Fold", Fold); }',
        '// TVM_REGISTER_GLOBAL("tl.transform.Fold").set_body_typed(Fold);',
        'TVM_REGISTER_GLOBAL("other", "tl.transform.Fold").set_body_typed(Fold);',
    ],
)
def test_names_that_register_no_pass(source: str) -> None:
    assert found(source + "\n") == []


def test_infinity_and_its_lowering_are_one_place_when_they_stand_together() -> None:
    (site,) = anatomy(INFINITY).kernels[0].sites
    assert (site.concept, site.label, site.lines) == ("infinity-lowering", "", Lines(4, 11))
    assert site.context == Lines(3, 11)
    assert site.qualname == "tvm::lower_it"
    assert [p.note.key for p in site.proof] == ["trees.registers-operation", "trees.lowered-by"]


def test_infinity_apart_from_its_lowering() -> None:
    apart = INFINITY.replace("TVM_REGISTER_OP", "int between;\n\nTVM_REGISTER_OP")
    assert found(apart) == [
        ("infinity-lowering", "", Lines(4, 6)),
        ("infinity-lowering", "part=registration", Lines(10, 13)),
    ]


def test_infinity_lowered_elsewhere() -> None:
    assert found(INFINITY[INFINITY.index("TVM_REGISTER_OP") :]) == [
        ("infinity-lowering", "", Lines(1, 4))
    ]


def test_other_operations_and_other_infinities_are_not_it() -> None:
    assert found(INFINITY.replace("tl.infinity", "tl.pow_of_int")) == []
    assert found("double x() { return std::numeric_limits<double>::infinity(); }\n") == []
    assert found('auto op = Op::Get("tl.infinity");\n') == []


SOURCES = (REWRITE, REGISTRATIONS, INFINITY)


@pytest.mark.parametrize("source", SOURCES, ids=["rewrite", "registrations", "infinity"])
class TestMetamorphic:
    """The same code in another shape holds the same places, on the lines that they moved to."""

    def test_shifted(self, source: str) -> None:
        moved = [(c, lab, Lines(at.first + 7, at.last + 7)) for c, lab, at in found(source)]
        assert found("// more\n" * 7 + source) == moved

    def test_renamed(self, source: str) -> None:
        names = r"\b(table_|known_|Rerouter|Fold|Hold|lower_it|run)\b(?!\")"
        assert found(re.sub(names, r"x_\1", source)) == found(source)

    def test_commented(self, source: str) -> None:
        noisy = source.replace("{\n", '{ // copy_l0c_to_ub "tl.transform.Nothing"\n')
        assert found(noisy) == found(source)

    def test_crlf_bom_and_no_final_newline(self, source: str) -> None:
        data = b"\xef\xbb\xbf" + source.rstrip().replace("\n", "\r\n").encode()
        sites = read_cpp(data, "a.cc").kernels[0].sites
        assert [(s.concept, s.label, s.lines) for s in sites] == found(source)

    def test_one_token_per_line(self, source: str) -> None:
        spread = re.sub(r"([({,])(?=[^\n])", r"\1\n", source)
        assert [c for c, _, _ in found(spread)] == [c for c, _, _ in found(source)]


def test_a_parse_error_near_a_place_lowers_trust_and_is_said() -> None:
    broken = REWRITE.replace("  // What", "  int x = ;\n  // What")
    sites = anatomy(broken).kernels[0].sites
    assert [site.concept for site in sites] == ["workspace-rewrite"]
    assert sites[0].confidence != "high"
    assert sites[0].proof[-1].note.key == "trees.parse-error-near"
    assert "trees.parse-errors" in [note.key for note in anatomy(broken).problems]


def test_a_parse_error_far_away_is_said_but_changes_nothing() -> None:
    broken = REWRITE + "\n" * 20 + "class ( { ;\n"
    sites = anatomy(broken).kernels[0].sites
    assert [site.confidence for site in sites] == ["high"]
    assert [note.key for note in anatomy(broken).problems] == ["trees.parse-errors"]


def test_absences_say_why() -> None:
    kernel = anatomy("int x;\n").kernels[0]
    assert (kernel.kind, kernel.qualname, kernel.lines) == ("file", "a.cc", Lines(1, 1))
    assert {(a.concept, a.judged) for a in kernel.absences} == {
        ("workspace-rewrite", True),
        ("pass-registration", True),
        ("infinity-lowering", True),
    }


def test_odd_bytes_are_said() -> None:
    anatomy = read_cpp(b'// \xff\n"\0"\n', "a.cc")
    assert [note.key for note in anatomy.problems] == ["trees.not-utf8", "trees.nul-byte"]


def test_an_empty_file_has_one_empty_entry() -> None:
    assert read_cpp(b"", "a.cc").kernels[0].lines == Lines(1, 1)


def test_a_generated_header_of_a_megabyte() -> None:
    header = b"static const char* const k[] = {\n" + b'  "copy_l0c_to_gm",\n' * 55_000 + b"};\n"
    assert len(header) > 1_000_000
    assert read_cpp(header, "gen.h").kernels[0].sites == ()


@given(st.binary(max_size=400), st.sampled_from(SOURCES), st.integers(0, 600))
def test_no_bytes_crash_it(noise: bytes, source: str, at: int) -> None:
    data = source.encode()
    sites = read_cpp(data[:at] + noise + data[at:], "a.cc").kernels[0].sites
    last = (data + noise).count(b"\n") + 1
    assert all(1 <= s.lines.first <= s.lines.last <= last for s in sites)
    assert all(s.context.first <= s.lines.first for s in sites)


@pytest.mark.parametrize("name", query_names())
def test_every_query_fits_its_grammar(name: str) -> None:
    grammar = cast("Grammar", name.partition("-")[0])
    assert parse(b"", grammar).find(name) is not None


def test_the_queries_are_the_ones_that_ship() -> None:
    assert {"cpp-string-rows", "cpp-named-calls", "markdown-blocks"} <= set(query_names())


def test_every_note_of_the_trees_can_be_said() -> None:
    sources = Path(srcmap.anatomy.cpp.__file__).parents[1]
    files = ("anatomy/cpp.py", "anatomy/markdown.py", "anatomy/library.py", "parse/treesitter.py")
    text = "".join((sources / file).read_text("utf-8") for file in files)
    keys = set(re.findall(r'"(trees\.[a-z0-9-]+)"', text))
    keys |= {f"trees.no-{concept.id}" for concept in srcmap.anatomy.cpp.CONCEPTS}
    keys |= {f"trees.no-{concept}" for concept in srcmap.anatomy.markdown.CONCEPTS}
    assert len(keys) > 20
    for lang in ("en", "zh"):
        said = json.loads((sources / f"data/text/trees.{lang}.json").read_text("utf-8"))
        assert set(said) == keys
