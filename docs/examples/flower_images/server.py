"""The server: thirty rounds under a budget in joules, from a selector that was never trained before."""

from pathlib import Path

from flwr.app import ArrayRecord, Context
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg
from site_node import new_model

from bippo_rllib import ClientSelector
from bippo_rllib.federated.flower import BudgetedStrategy

server_app = ServerApp()


def check_folders(images: Path, run: Path) -> None:
    """Raises a ValueError unless the folders can be found from where Flower runs nodes and server."""
    if not (images.is_absolute() and images.is_dir()):
        raise ValueError(f"images is {str(images)!r}; expected the absolute path of the folder of make_images.py")
    if not run.is_absolute():
        raise ValueError(f"run is {str(run)!r}; expected the absolute path of a folder for the run")


@server_app.main()
def serve(grid: Grid, context: Context) -> None:
    """Runs the rounds, or what is left of them if a server was killed before."""
    config = context.run_config
    run, name, seed = Path(str(config["run"])), str(config["selector"]), int(config["seed"])
    check_folders(Path(str(config["images"])), run)
    selector = ClientSelector.load(name) if Path(name).exists() else ClientSelector.fresh(name, seed=seed)
    checkpoint = run / "checkpoint.safetensors"
    strategy = BudgetedStrategy(
        FedAvg(),
        selector,
        float(config["budget-j"]),
        history_path=run / "history.jsonl",
        checkpoint_path=checkpoint,
    )
    if checkpoint.exists():
        strategy.load(checkpoint)
    model = new_model(len(str(config["labels"]).split()), seed)
    strategy.start(grid, ArrayRecord(model.state_dict()), num_rounds=int(config["rounds"]))
    if not strategy.history:
        print("no site has evaluated the model; the warnings above say why")
        return
    history = strategy.history.to_pandas()
    accuracy = history.groupby("round")["accuracy"].mean()
    energy_mj = 1000 * history.loc[history["selected"], "cost_j"].sum()
    print(f"{name}: mean accuracy {accuracy[1:].mean():.3f}, last {accuracy.iloc[-1]:.3f}, {energy_mj:.0f} mJ")
    print("(plain means over the sites; Flower's metrics above are weighted by num-examples)")
