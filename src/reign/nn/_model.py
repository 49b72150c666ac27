"""The composition mu . rho . S . pi as a PyG-style model, and how it is saved."""

import copy
import inspect
import json
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any, ClassVar, Literal, cast

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

import reign.policies as policies
from reign._validate import check, kind_of
from reign.bags import Domain, SubgraphBag
from reign.disk import read_json
from reign.nn._encoders import EncoderSpec, make_encoder
from reign.nn._mlp import Activation, make_act, num_parameters
from reign.nn._pooling import MeanPooling, Pooling
from reign.nn._state import State
from reign.policies import Policy

TaskLevel = Literal["graph", "node", "edge"]
JumpingKnowledge = Literal["last", "cat", "max", "sum"] | None


class Model(nn.Module):
    r"""A subgraph GNN: :math:`(A, X) \mapsto (\mu \circ \rho \circ S \circ \pi)(A, X)`.

    Args:
        in_channels: of node features, after ``node_encoder`` if there is one.
        hidden_channels: of the layers.
        num_layers: of S.
        out_channels: of the prediction; None gives the pooled vectors themselves.
        layer: makes a layer (h, bag, edge_attr) -> h of given channels in and out.
        policy: pi, by name or as a ``Policy``.
        pooling: makes rho for a number of channels; means over nodes and subgraphs if not given.
        node_encoder: of node features that are types: their number, a list of numbers (one per column), "atom", or a module.
        dropout: after the encoder, after each layer, and in the head.
        act: activation of the head (layers have their own).
        jk: jumping knowledge: "cat", "max" or "sum" of all layers; None or "last" takes the last.
        residual: add what came into a layer to what it gives.
        task_level: predictions for graphs, nodes or edges.
        domain: what sums, means and norms range over: "all" pairs, or "members" of subgraphs.
    """

    needs_node_based: ClassVar[bool] = False
    """Does the model need exactly one subgraph per node?"""

    takes_policy: ClassVar[bool] = True
    """May the user choose the policy? Baselines that look at the graph itself have a fixed one."""

    wl_bound: ClassVar[str] = "3-WL for terms of the ReIGN(2) table; no construction here for what lies beyond it"
    """The strongest Weisfeiler-Leman test that bounds the model, for a policy of the paper's class (or for any input, if the
    model takes no policy)."""

    linear_form: ClassVar[dict[str, Any]] = {}
    """The options that give the form of the model that the paper's constructions cover: GraphConv, linear terms, sums, no norm, and
    sums over all nodes. It is empty if no construction is known."""

    _config: dict[str, Any]

    def __new__(cls, *args: Any, **kwargs: Any) -> "Model":
        """Remember the arguments, so that the model can be saved."""
        self = super().__new__(cls)
        signature = inspect.signature(cls.__init__)
        try:
            given = signature.bind(self, *args, **kwargs).arguments
        except TypeError:  # a copy is being made, or __init__ will complain
            return self
        rest = [name for name, p in signature.parameters.items() if p.kind is inspect.Parameter.VAR_KEYWORD]
        options = {key: value for name in rest for key, value in given.pop(name, {}).items()}
        given.pop(next(iter(signature.parameters)))
        object.__setattr__(
            self, "_config", {key: list(v) if isinstance(v, tuple | list) else v for key, v in (given | options).items()}
        )
        return self

    def __init__(
        self,
        in_channels: int,
        hidden_channels: int,
        num_layers: int,
        out_channels: int | None = None,
        *,
        layer: Callable[[int, int], nn.Module],
        policy: str | Policy = "ego+:3",
        pooling: Callable[[int], Pooling] | None = None,
        node_encoder: EncoderSpec = None,
        dropout: float = 0.0,
        act: Activation = "relu",
        jk: JumpingKnowledge = None,
        residual: bool = False,
        task_level: TaskLevel = "graph",
        domain: Domain = "all",
    ) -> None:
        super().__init__()
        for name, size in (("in_channels", in_channels), ("hidden_channels", hidden_channels), ("num_layers", num_layers)):
            check(name, size, type(size) is int and size >= 1, "a whole number of at least 1")
        good = out_channels is None or (type(out_channels) is int and out_channels >= 1)
        check("out_channels", out_channels, good, "a whole number of at least 1, or None")
        check("dropout", dropout, isinstance(dropout, int | float) and 0 <= dropout < 1, "a number of at least 0 and below 1")
        check("pooling", pooling, pooling is None or callable(pooling), "a function that makes a pooling for a number of channels")
        check("jk", jk, jk in (None, "last", "cat", "max", "sum"), "None, 'last', 'cat', 'max' or 'sum'")
        check("task_level", task_level, task_level in ("graph", "node", "edge"), "'graph', 'node' or 'edge'")
        check("domain", domain, domain in ("all", "members"), "'all' or 'members'")
        self.policy = copy.deepcopy(policies.policy(policy))  # sampled ones have a state
        self.in_channels, self.hidden_channels, self.out_channels = in_channels, hidden_channels, out_channels
        self.num_layers, self.jk, self.task_level, self.domain = num_layers, jk, task_level, domain
        self.node_encoder = make_encoder(node_encoder, None, in_channels)
        first = self.lifted_channels()
        widths = [first] + [hidden_channels] * num_layers
        self.layers = nn.ModuleList([layer(a, b) for a, b in pairwise(widths)])
        self.residual = nn.Linear(first, hidden_channels) if residual else None
        self.dropout = nn.Dropout(dropout)
        channels = hidden_channels * (num_layers if jk == "cat" else 1)
        self.pooling = (pooling or MeanPooling)(channels)
        if task_level != "graph" and type(self.pooling).nodes is Pooling.nodes:
            self.pooling = MeanPooling(channels)  # what is learned about graphs has no use here
        ends = self.pooling.out_channels * (2 if task_level == "edge" else 1)
        self.head = None if out_channels is None else Head(ends, out_channels, act, dropout)

    @classmethod
    def for_separation(cls, layers: int) -> dict[str, Any]:
        """The arguments that give the model a depth of ``layers``, so that models can be compared on pairs of graphs.

        >>> Model.for_separation(6)
        {'num_layers': 6}
        """
        return {"num_layers": layers}

    # -- forward ---------------------------------------------------------------------------------------------------

    def forward(
        self,
        x: Tensor,
        edge_index: Tensor,
        edge_attr: Tensor | None = None,
        batch: Tensor | None = None,
        batch_size: int | None = None,
        *,
        bag: SubgraphBag | None = None,
    ) -> Tensor:
        """Predict, for each graph, node or edge of a PyG batch.

        Args:
            x: node features, shape (nodes, channels).
            edge_index: edges, shape (2, edges).
            edge_attr: edge features, shape (edges, ...).
            batch: the graph of each node; one graph if not given.
            batch_size: number of graphs, if the last of them may be without nodes.
            bag: the bag of just this batch, if it was made before.
        """
        if bag is not None:
            self._check_bag(bag, edge_index, edge_attr)
            return self.predict(x, bag)

        def draw() -> Tensor:
            made = self.policy(x, edge_index, edge_attr, batch, batch_size=batch_size, domain=self.domain)
            return self.predict(x, made)

        if self.policy.num_draws == 1:
            return draw()
        return torch.stack([draw() for _ in range(self.policy.num_draws)]).mean(0)

    def _check_bag(self, bag: SubgraphBag, edge_index: Tensor, edge_attr: Tensor | None) -> None:
        if not isinstance(bag, SubgraphBag):
            raise ValueError(f"bag is {kind_of(bag)}, expected a SubgraphBag; make it with model.policy(x, edge_index, ...).")
        if bag.policy is not self.policy and bag.policy != self.policy:
            raise ValueError(f"the bag was made by policy '{bag.policy}', expected '{self.policy}'; make it with model.policy.")
        if edge_index.shape != bag.graph.edge_index.shape or (edge_attr is not None and bag.graph.edge_attr is None):
            raise ValueError("the bag was made of another batch, or without its edge_attr; make it with model.policy of this one.")

    def predict(self, x: Tensor, bag: SubgraphBag) -> Tensor:
        """S, rho and mu for a bag."""
        if self.needs_node_based:
            bag.require_node_based(type(self).__name__)
        h = self.dropout(self.lift(self.encode(x), bag))
        last = self.residual(h) if self.residual is not None else None
        seen = []
        for layer in self.layers:
            h = self.dropout(layer(h, bag))
            if last is not None:
                h = last = h + last
            seen.append(h)
        return self.readout(State(self._jump(seen), bag, self.domain))

    def prepare(self, x: Tensor, bag: SubgraphBag) -> SubgraphBag:
        """Build all index maps of a bag that this model needs, by one pass without gradients: ``torch.compile`` needs them."""
        modes = {module: module.training for module in self.modules()}
        self.eval()
        with torch.no_grad():
            self.predict(x, bag)
        self.policy.train(modes[self])
        for module, mode in modes.items():
            module.training = mode
        return bag

    def encode(self, x: Tensor) -> Tensor:
        """Node features as vectors of ``in_channels``."""
        if self.node_encoder is not None:
            x = self.node_encoder(x)
        elif not x.is_floating_point():
            raise ValueError(
                f"x has dtype {x.dtype}, expected floating-point features; for types give node_encoder=<their number>, otherwise "
                "use x.float()."
            )
        if x.dim() != 2 or x.size(1) != self.in_channels:
            raise ValueError(
                f"x has {x.shape[-1]} channels, expected in_channels={self.in_channels}: shape (nodes, {self.in_channels})."
            )
        weights = next((p.dtype for p in self.layers.parameters()), x.dtype)
        if x.dtype != weights and not torch.is_autocast_enabled(x.device.type):
            raise ValueError(
                f"x has dtype {x.dtype} and the model {weights}, expected one of them; use x.to({weights}) or model.to({x.dtype})."
            )
        return x

    def lift(self, x: Tensor, bag: SubgraphBag) -> Tensor:
        """Values on nodes as values on pairs."""
        return bag.lift(x)

    def lifted_channels(self) -> int:
        """Channels of the values on pairs: marks, and features."""
        return self.policy.num_marks + self.in_channels

    def readout(self, state: State) -> Tensor:
        """rho and mu."""
        if self.task_level == "graph":
            out = self.pooling(state)
        else:
            out = self.pooling.nodes(state)
            if self.task_level == "edge":
                out = torch.cat([end(out) for end in state.bag.wiring.edge_ends], dim=1)
        return out if self.head is None else self.head(out)

    def _jump(self, seen: list[Tensor]) -> Tensor:
        if self.jk == "cat":
            return torch.cat(seen, dim=1)
        if self.jk == "max":
            return torch.stack(seen).amax(0)
        return torch.stack(seen).sum(0) if self.jk == "sum" else seen[-1]

    # -- modes and checks ------------------------------------------------------------------------------------------

    def train(self, mode: bool = True) -> "Model":
        """Switch to training or evaluation, the policy too."""
        self.policy.train(mode)
        return super().train(mode)

    def describe(self) -> str:
        """The update equations on and off the diagonal, the parameters of each term, and the cost in passes over the bag."""
        lines = [f"{self!r}", f"{num_parameters(self):,} parameters"]
        if self.node_encoder is not None:
            lines.append(f"node encoder: {num_parameters(self.node_encoder):,} parameters")
        previous = ""
        for t, layer in enumerate(self.layers):
            text = cast(Any, layer).describe()
            lines.append(f"layer {t}: " + ("as the one before" if text == previous else text))
            previous = text
        pooling = f"{type(self.pooling).__name__}({self.pooling.extra_repr()})"
        lines.append(f"pooling: {pooling}, {num_parameters(self.pooling):,} parameters, to {self.task_level} level")
        if self.head is not None:
            lines.append(f"head: {num_parameters(self.head):,} parameters")
        return "\n".join(lines)

    # -- on disk ---------------------------------------------------------------------------------------------------

    def save_pretrained(self, folder: str | Path) -> None:
        """Save the weights (safetensors) and the arguments of the model (JSON)."""
        folder = Path(folder)
        if not self._config:
            raise ValueError(
                "the weights of this model were constructed, and its arguments do not describe it; save model.state_dict()."
            )
        config = {name: str(value) if isinstance(value, Policy) else value for name, value in self._config.items()}
        if isinstance(self._config.get("policy"), Policy) and not _has_name(self._config["policy"]):
            raise ValueError(f"policy {self.policy!r} has no name to be saved under; save model.state_dict() instead.")
        try:
            text = json.dumps({"model": type(self).__name__, "arguments": config}, indent=2)
        except TypeError as error:
            raise ValueError(
                f"the arguments of this {type(self).__name__} cannot be written as JSON ({error}); save model.state_dict() instead."
            ) from None
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "config.json").write_text(text + "\n")
        save_file({name: value.contiguous() for name, value in self.state_dict().items()}, folder / "model.safetensors")

    @classmethod
    def from_pretrained(cls, folder: str | Path) -> "Model":
        """Load a model that ``save_pretrained`` saved, in evaluation mode."""
        from reign.nn._catalogue import MODELS

        folder = Path(folder)
        if not (folder / "config.json").is_file() or not (folder / "model.safetensors").is_file():
            raise ValueError(f"{folder} holds no config.json and model.safetensors, expected a folder that save_pretrained made.")
        saved = read_json(folder / "config.json")
        kind = MODELS.get(saved["model"].lower(), cls)
        if not issubclass(kind, cls):
            raise ValueError(f"{folder} holds a {saved['model']}, expected a {cls.__name__}; use {saved['model']}.from_pretrained.")
        model = kind(**saved["arguments"])
        weights = load_file(folder / "model.safetensors")
        model.to(next((value.dtype for value in weights.values() if value.is_floating_point()), torch.float32))
        model.load_state_dict(weights)
        return model.eval()


class Head(nn.Module):
    """mu: Linear, activation, dropout, Linear."""

    def __init__(self, in_channels: int, out_channels: int, act: Activation = "relu", dropout: float = 0.0) -> None:
        super().__init__()
        self.lin1 = nn.Linear(in_channels, 2 * in_channels)
        self.act = make_act(act)
        self.dropout = nn.Dropout(dropout)
        self.lin2 = nn.Linear(2 * in_channels, out_channels)

    def forward(self, x: Tensor) -> Tensor:
        """Predict from pooled vectors."""
        out: Tensor = self.lin2(self.dropout(self.act(self.lin1(x))))
        return out


def reject(model: Model, options: dict[str, Any], *names: str) -> None:
    """Raise ``ValueError`` for options that a model has no use for."""
    if used := [f"{name}={options[name]!r}" for name in names if options.get(name) is not None]:
        raise ValueError(f"{type(model).__name__} has no use for {', '.join(used)}; leave it out.")


def _has_name(policy: Policy) -> bool:
    try:
        return policies.policy(str(policy)) == policy
    except ValueError:
        return False
