#!/bin/bash
# A study as a Slurm job; submitted again, or requeued, it is resumed:
#
#     sbatch --nodes=2 docs/examples/slurm_study.sh RESULTS_DIR [arguments of bippo tune]
#
# RESULTS_DIR and --data-dir must be the same folders on every node.

#SBATCH --job-name=bippo
#SBATCH --nodes=1
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=16
#SBATCH --exclusive
#SBATCH --time=12:00:00
#SBATCH --requeue
#SBATCH --signal=B:USR1@120
#SBATCH --open-mode=append
#SBATCH --output=%x-%j.log

set -euo pipefail
# Activate your environment here: . /shared/venv/bin/activate

results=${1:?the folder of the results comes first}
shift
if [[ -f $results/run.json ]]; then
    study=(bippo tune --resume "$results")
else
    study=(bippo tune --results-dir "$results" "$@")
fi

# Ray's own folder, /tmp/ray, may be another user's here.
export RAY_TMPDIR="/tmp/ray-$SLURM_JOB_ID"
trap 'rm -rf "$RAY_TMPDIR"' EXIT

if ((SLURM_JOB_NUM_NODES > 1)); then
    # This script runs on the first node. If the nodes have several networks, name the address in the right one.
    address="$(hostname -I | cut -d ' ' -f 1):6379"
    cluster=(--address "$address" --min-nodes "$SLURM_JOB_NUM_NODES" --num-cpus "$SLURM_CPUS_PER_TASK")
    # srun does not take the cores of a task from sbatch.
    on_all=(srun --cpus-per-task "$SLURM_CPUS_PER_TASK" ray symmetric-run)
    study=("${on_all[@]}" "${cluster[@]}" -- env RAY_ADDRESS="$address" "${study[@]}")
fi

# Two minutes before the time is up: ends the study as Ctrl-C does, and queues this job again.
requeue() {
    kill -TERM "$pid"
    wait "$pid" || true
    scontrol requeue "$SLURM_JOB_ID"
}
trap requeue USR1

"${study[@]}" &
pid=$!
wait "$pid"
