"""Options: which names constructors take, and that nothing is silently ignored."""

import inspect
import pydoc
import re
from collections.abc import Callable
from typing import Any, ClassVar, Literal, Unpack, get_args, get_origin, get_type_hints

import pytest
import torch
from torch import nn

import reign
from reign.nn import (
    DS,
    GNNAK,
    IGN2,
    MODELS,
    MPNN,
    SUN,
    CompositionOptions,
    GNNAKPublished,
    LayerOptions,
    MeanPooling,
    MemberModelOptions,
    Model,
    ModelOptions,
    RootPooling,
    SubgraphConv,
    SubgraphGNN,
)
from reign.nn._arguments import full_signature
from reign.nn._mlp import Resettable
from reign.published._tensors import TensorPublished


def test_options_that_would_be_ignored_are_refused() -> None:
    with pytest.raises(ValueError, match="SUN has fixed layers, got aggregation="):
        SUN(3, 6, 2, aggregation={"readout": "mean"})
    with pytest.raises(ValueError, match="IGN2 does not use conv='gin'"):
        reign.nn.IGN2(3, 6, 2, conv="gin")
    with pytest.raises(ValueError, match="MPNN does not use policy='nm'"):
        MPNN(3, 6, 2, policy="nm")
    with pytest.raises(ValueError, match="edge features .* are used only by base encoders"):
        SubgraphGNN(3, 6, 2, terms=["own", "local"], edge_dim=2)
    with pytest.raises(ValueError, match="the mean of \\['local'\\] needs conv='gin' or 'graphconv'"):
        SubgraphGNN(3, 6, 2, terms=["own+local"], aggregation={"local": "mean"}, edge_dim=2)
    for kind in (GNNAK, GNNAKPublished):
        with pytest.raises(ValueError, match="remark=True needs a policy with marks"):
            kind(3, 6, 2, remark=True)
    with pytest.raises(ValueError, match="edge_encoder is a module, but every base encoder needs its own module"):
        SUN(3, 6, 2, edge_encoder=nn.Linear(2, 6))


SIZES = ("in_channels", "hidden_channels", "num_layers", "out_channels")
KINDS = [kind for _, kind in MODELS.items()]


def declared(constructor: Callable[..., None]) -> dict[str, Any]:
    """The types of ``**options: Unpack[...]`` by name."""
    hint = inspect.signature(constructor).parameters["options"].annotation
    assert get_origin(hint) is Unpack
    return get_type_hints(get_args(hint)[0])


@pytest.mark.parametrize("kind", KINDS)
def test_declared_options_are_those_that_are_taken(kind: type[Model]) -> None:
    """What editors complete (the signature and the typed dictionary) is what can be given, and has the type it has in a base class."""
    own = inspect.signature(kind.__init__).parameters
    typed = declared(kind.__init__)
    assert not set(own) & set(typed)
    assert set(kind.option_names()) == {*own, *typed} - {"self", "options"}
    assert list(kind.option_names()[:4]) == list(SIZES)
    base = {name: p for each in (TensorPublished, Model, SubgraphGNN, DS) for name, p in inspect.signature(each).parameters.items()}
    for name, hint in typed.items():
        assert hint == base[name].annotation, name


@pytest.mark.parametrize("kind", KINDS)
def test_every_option_can_be_given(kind: type[Model]) -> None:
    plain = kind(3, 6, 2, 2)
    for name, parameter in inspect.signature(kind).parameters.items():
        if name in (*SIZES, "pooling"):
            continue
        again = kind(3, 6, 2, 2, **{name: parameter.default})
        assert repr(again) == repr(plain)
        assert {key: v.shape for key, v in again.state_dict().items()} == {key: v.shape for key, v in plain.state_dict().items()}
    assert type(kind(3, 6, 2, 2, pooling=RootPooling).pooling) is RootPooling
    assert type(kind(3, 6, 2, 2, pooling=None).pooling) is MeanPooling


def test_defaults_of_layers_and_models_agree() -> None:
    layer, model, base = (inspect.signature(kind).parameters for kind in (SubgraphConv, SubgraphGNN, Model))
    assert set(get_type_hints(LayerOptions)) <= set(layer)
    for name, hint in get_type_hints(LayerOptions).items():
        assert layer[name].default == model[name].default
        assert layer[name].annotation == model[name].annotation == hint
    for name in set(model) & set(base) - {"layer"}:
        assert model[name].default == base[name].default
        assert model[name].annotation == base[name].annotation
    assert get_type_hints(ModelOptions) == get_type_hints(LayerOptions) | get_type_hints(CompositionOptions)
    assert set(get_type_hints(MemberModelOptions)) == set(get_type_hints(ModelOptions)) - {"domain"}


@pytest.mark.parametrize("kind", KINDS)
def test_options_that_are_not_known(kind: type[Model]) -> None:
    with pytest.raises(ValueError, match=f"^{kind.__name__} has no option 'droput'; did you mean 'dropout'\\?$"):
        kind(3, 6, 2, 2, droput=0.1)
    with pytest.raises(ValueError, match=f"^{kind.__name__} has no option 'zzz'\\.$"):
        kind(3, 6, 2, 2, zzz=None)


def test_none_is_as_good_as_leaving_out_what_a_parent_takes() -> None:
    assert repr(IGN2(3, 6, 2, conv=None)) == repr(IGN2(3, 6, 2))
    assert repr(MPNN(3, 6, 2, policy=None)) == repr(MPNN(3, 6, 2))
    with pytest.raises(ValueError, match="DS does not use layer="):
        DS(3, 6, 2, layer=SubgraphConv)
    with pytest.raises(ValueError, match="DS has fixed layers, got transform='linear'"):
        DS(3, 6, 2, transform="linear")


def test_layers_refuse_options_that_they_have_no_use_for() -> None:
    with pytest.raises(TypeError, match="unexpected keyword argument 'expansion'"):
        reign.nn.PPGNConv(3, 6, expansion=2)
    with pytest.raises(TypeError, match="unexpected keyword argument 'droput'"):
        reign.nn.DSConv(3, 6, droput=0.1)


def test_missing_arguments_are_errors_of_python() -> None:
    with pytest.raises(TypeError, match="missing .* argument: 'num_layers'"):
        SUN(3, 6)


def test_options_of_ones_own() -> None:
    class Wide(SUN):
        def __init__(self, width: int, *, twice: bool = False, **options: Any) -> None:
            super().__init__(3, 2 * width if twice else width, 2, **options)

    assert {"width", "twice", "transpose", "jk"} <= set(Wide.option_names())
    assert Wide(6, twice=True, transpose=True, jk="cat").hidden_channels == 12
    with pytest.raises(ValueError, match="Wide has no option 'tranpose'; did you mean 'transpose'"):
        Wide(6, tranpose=True)
    with pytest.raises(ValueError, match="Wide has fixed layers, got terms="):
        Wide(6, terms=["own"])


PUBLIC = [value for value in (getattr(reign.nn, name) for name in reign.nn.__all__) if inspect.isclass(value)]
EXPLAINED = {*KINDS, *(kind for _, kind in reign.nn.CONVS.items()), *(kind for kind in PUBLIC if issubclass(kind, Resettable))}


def explanations(kind: type) -> dict[str, str]:
    """What ``help`` says of each argument."""
    _, _, args = (inspect.getdoc(kind) or "").partition("Args:\n")
    entries = re.split(r"\n(?=    \S)", args.split("\n\n")[0])
    return dict(" ".join(entry.split()).partition(": ")[::2] for entry in entries if entry)


def values_of(hint: Any) -> list[str]:
    """The strings that an option can be, according to its type."""
    if get_origin(hint) in (dict, Literal):
        return [value for value in get_args(hint) if isinstance(value, str)]
    return [value for part in get_args(hint) for value in values_of(part)]


@pytest.mark.parametrize("kind", sorted(EXPLAINED, key=lambda kind: kind.__name__))
def test_every_option_is_explained_where_people_look(kind: type) -> None:
    """In its docstring every argument has a sentence of its own, with its default and with all values that its type lists."""
    found = explanations(kind)
    parameters = full_signature(kind).parameters
    assert list(found) == list(parameters) or not parameters
    for name, text in found.items() if parameters else ():
        assert not text.startswith("see ``"), name
        default = parameters[name].default
        if default not in (None, inspect.Parameter.empty) and len(repr(default)) <= 60:
            assert (f'"{default}"' if isinstance(default, str) else f"Default: {default}.") in text, name
        assert [value for value in values_of(parameters[name].annotation) if f'"{value}"' not in text] == [], name


def test_an_option_without_a_sentence_is_found() -> None:
    class Silent(SUN):
        """A model whose own options are not explained."""

        def __init__(self, *, silent: int = 3, **options: Unpack[ModelOptions]) -> None:
            super().__init__(3, 6, 2, **options)

    class Loud(Silent):
        """A model with one more option.

        >>> 1
        1

        Args:
            loud: whether it is loud.
            jk: see ``SubgraphGNN``.
            head: see ``a book``.
            labels: see ``Book``.

        That is all.
        """

        defaults: ClassVar[dict[str, Any]] = {"dropout": 0.5}

        def __init__(self, *, loud: bool = True, **options: Any) -> None:
            super().__init__(**options)

    assert "silent" not in explanations(Silent)
    assert set(explanations(Silent)) == set(full_signature(Silent).parameters) - {"silent"}
    found = explanations(Loud)
    assert found["loud"] == "whether it is loud."  # as it is written in a class of one's own
    assert found["jk"] == explanations(SUN)["jk"]
    assert found["labels"] == "see ``Book``. Default: None."
    assert found["dropout"].endswith("Default: 0.5.")
    assert Loud().dropout.p == 0.5
    assert Loud(dropout=0.25).dropout.p == 0.25
    assert Loud()._config == {}
    assert (inspect.getdoc(Loud) or "").endswith("\n\nThat is all.")


def test_what_users_say_of_their_arguments_stays_as_it_is_written() -> None:
    class Google(SUN):
        """A model.

        Args:
            extra (int, optional): how many.

                A second paragraph:
                - "a": one thing
                - "b": another

            dropout (float): of my own, (really): yes.
            **more: everything else.

        Example:
            none
        """

        def __init__(self, *, extra: int = 3, **options: Unpack[ModelOptions]) -> None:
            super().__init__(3, 6, 2, **options)

    class NumPy(Google):
        """A model.

        Parameters
        ----------
        extra : int
            How many.
        """

    class Child(Google):
        """A child."""

    doc, written = inspect.getdoc(Google) or "", inspect.cleandoc(vars(Google)["__doc__"].written)
    args = written.partition("Args:\n")[2].partition("\n\nExample")[0]
    for entry in re.split(r"\n+(?=    \S)", args):
        assert entry in doc
    assert doc.count("Args:") == doc.count("dropout") == 1
    assert doc.endswith("Example:\n    none")
    assert '    jk: jumping knowledge: "cat"' in doc
    assert inspect.getdoc(NumPy) == inspect.cleandoc("""A model.

        Parameters
        ----------
        extra : int
            How many.
        """)
    assert explanations(Child)["extra"].startswith("how many. A second paragraph:")
    domains = [
        explanations(kind)["domain"].removesuffix(f'"{default}".')
        for kind, default in ((reign.nn.GNNAKPlus, "members"), (GNNAK, "all"))
    ]
    assert domains[0] == domains[1]  # a class with other defaults has the sentences of its parent


class Wider(SUN):
    """A SUN with a wider head.

    Args:
        factor: how much wider.
    """

    def __init__(self, *args: Any, factor: int = 2, **options: Any) -> None:
        super().__init__(*args, **options)


@pytest.mark.parametrize("kind", [SUN, reign.nn.SUNConv, reign.nn.GNNAKPlus, reign.nn.BaseEncoder, Wider])
def test_help_shows_the_full_text(kind: type) -> None:
    doc, shown = inspect.getdoc(kind) or "", pydoc.plain(pydoc.render_doc(kind))
    assert all(f"    {name}: " in doc for name in full_signature(kind).parameters)
    assert "\n".join(f" |  {line}".rstrip() for line in doc.splitlines()) in re.sub(r" +$", "", shown, flags=re.MULTILINE)


class Same(reign.nn.GNNAKPlus):
    def __init__(self, i: int, h: int) -> None:
        super().__init__(i, h, 2, 1, combine="cat")


class SameWithMore(reign.nn.GNNAKPlus):
    def __init__(self, i: int, h: int, **options: Any) -> None:
        super().__init__(i, h, 2, 1, combine="cat", **options)


class OwnDefault(reign.nn.ReconstructionGNN):
    def __init__(self, i: int, h: int, **options: Any) -> None:
        super().__init__(i, h, 2, 1, policy=options.get("policy", "ego:2"))


class FewerDefaults(reign.nn.GNNAKPlus):
    defaults: ClassVar[dict[str, object]] = {"combine": "sum"}


@pytest.mark.parametrize(
    ("made", "expected"),
    [
        (lambda: Same(3, 6), lambda: reign.nn.GNNAKPlus(3, 6, 2, 1, combine="cat")),
        (lambda: SameWithMore(3, 6), lambda: reign.nn.GNNAKPlus(3, 6, 2, 1, combine="cat")),
        (lambda: SameWithMore(3, 6, jk="cat"), lambda: reign.nn.GNNAKPlus(3, 6, 2, 1, combine="cat", jk="cat")),
        (lambda: OwnDefault(3, 6), lambda: DS(3, 6, 2, 1, policy="ego:2")),
        (lambda: OwnDefault(3, 6, policy="nm"), lambda: DS(3, 6, 2, 1, policy="nm")),
        (lambda: FewerDefaults(3, 6, 2, 1), lambda: reign.nn.GNNAKPlus(3, 6, 2, 1, combine="sum")),
        (lambda: FewerDefaults(3, 6, 2, 1, combine="cat"), lambda: reign.nn.GNNAKPlus(3, 6, 2, 1, combine="cat")),
    ],
)
def test_defaults_are_those_of_the_constructor_that_declares_them(made: Callable[[], Model], expected: Callable[[], Model]) -> None:
    """Whoever derives from a class with defaults calls a constructor that has them, as if it were written out."""
    outputs = []
    for make in (made, expected):
        torch.manual_seed(0)
        model = make().eval()
        outputs.append((model.policy, model.domain, model(torch.randn(5, 3), torch.tensor([[0, 1, 2, 3], [1, 2, 3, 4]])).tolist()))
    assert outputs[0] == outputs[1]


def test_a_default_that_no_constructor_takes() -> None:
    with pytest.raises(ValueError, match=r"^defaults of Typo: Typo has no option 'droput'; did you mean 'dropout'\?$"):

        class Typo(SUN):
            defaults: ClassVar[dict[str, object]] = {"droput": 0.5}


@pytest.mark.parametrize("kind", KINDS)
def test_facts(kind: type[Model]) -> None:
    """The options of the linear form can be given, and so can those for comparisons; a policy only where it is a choice."""
    assert set(kind.linear_form) <= set(kind.option_names())
    kind(3, 6, out_channels=1, **(kind.for_separation(2) | kind.linear_form))
    assert kind.takes_policy == ("policy" in kind.option_names())
    assert "WL" in kind.wl_bound
