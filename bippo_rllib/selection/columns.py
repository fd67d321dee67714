"""Names of the columns that travel beside RLlib's own from bank to sampler to learner."""

#: P(participate | s) of each agent: what the sampler ranks. Pieces before the sampler may put any score in its place;
#: ``-inf`` means that the agent is no candidate.
SUGGESTION = "participation_suggestion"

#: 1.0 for each agent the sampler selected, else 0.0: what the learner trains on.
PARTICIPATED = "participated"
