"""Text of ``bippo tune --help`` around the flags, at most 80 columns wide."""

DESCRIPTION = """\
Trains the clients of a simulated federation under an energy budget per round,
once per method and seed, side by side as a Ray Tune study, and prints how
accurate each method gets and what it spends.
"""

EPILOG = """\
examples:
  bippo tune
      20 clients on scikit-learn's digits, bippo-s, bippo and fedavg, seeds 7,
      28, 42; minutes on 2 cores
  bippo tune --scenario fashion-mnist --data-dir DIR --methods bippo fedavg
      the paper's data, 200 rounds; hours on 2 cores
  bippo tune --seeds 1-10 --methods bippo-s,fedavg
      ten seeds; lists may be separated by commas as well
  bippo tune --set lr=0.0005 epsilon_decay=0.95 env.budget_share=0.2
      other settings: keys of BippoConfig.training, or env. and a field of
      envs.FederationConfig
  bippo tune --search "lr=loguniform(1e-4,1e-2)" --num-samples 16
      tunes: Ray Tune's search spaces, ASHA stops settings that fall behind,
      the best one is named at the end
  bippo tune --scenario transfer-small --init-from RESULTS_DIR
      starts from the policies of an earlier study with the same clients, each
      from those of its own method and seed
  bippo tune --methods mymodule:make_config fedavg
      your own method: a function without arguments that returns a BippoConfig
      (docs/your-own.md)
  bippo tune --executor ray --num-actors 2
      clients train in two Ray actors per trial; with GPUs each gets its share
      of one (docs/cluster.md)
  bippo tune --resume RESULTS_DIR
      resumes after a crash, a kill or Ctrl-C, also a search; the rows are
      those of an undisturbed run
  bippo tune --resume RESULTS_DIR --rounds 300
      runs a study for more rounds; rows until then stay as they are
  bippo tune --config RESULTS_DIR/run.json
      repeats a study in a new folder; the rows are the same
  bippo tune --logger mlflow
      numbers of every round in MLflow as well (docs/metrics.md)
  bippo report RESULTS_DIR
      table and figure again, also while a study is running

data:
  digits comes with scikit-learn. For the others, --data-dir or $BIPPO_DATA is
  a folder with the original files, torchvision's layout or a folder of images
  per class.
"""
