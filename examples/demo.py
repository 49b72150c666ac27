"""What there is so far: the bags of a small molecule-like graph under each policy."""

from rich.console import Console

import reign
from reign.cli.tables import bag_table, molecule, policy_table


def main() -> None:
    """Print the policies, the sizes of their bags, and one subgraph in full."""
    console = Console()
    console.print(policy_table())
    console.print(bag_table())
    bag = reign.policy("ego+:2").from_data(molecule())
    console.print(f"\n{bag}\nSubgraph 11, the end of the tail: {bag.subgraph(11)}")
    console.print("Channels of its nodes: mark of the root, mark of the others, feature.")
    console.print(bag.subgraph(11).x.int().tolist())


if __name__ == "__main__":
    main()
