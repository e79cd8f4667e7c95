#!/usr/bin/env python3
"""Prints the importances that Optuna finds in the cases of tests/unit/test_search_importance.c, for its table.

    pip install optuna scikit-learn && python3 tests/parity/importance.py

Optuna measures the range of a logarithmic hyperparameter by its value, we by its exponent, as it is drawn; so such a
hyperparameter is handed over as its exponent. Means of eight forests, so that chance hardly matters.
"""
import optuna

optuna.logging.set_verbosity(optuna.logging.ERROR)
N = 200


class Numbers:
    """The same numbers as in the C test."""

    def __init__(self):
        self.x = 1

    def __call__(self):
        self.x = (1103515245 * self.x + 12345) % 2**31
        return self.x / 2**31


UNIT = optuna.distributions.FloatDistribution(0, 1)


def additive(u):
    p = {"a": u(), "b": u(), "c": u()}
    return p, 3 * p["a"] + p["b"] + 0.3 * p["c"]


def mixed(u):
    p = {"a": u(), "n": 1 + int(u() * 8), "kind": ["adam", "sgd", "rms"][int(u() * 3)]}
    return p, 4 * p["a"] * p["a"] + 0.3 * p["n"] + (2 if p["kind"] == "sgd" else 0)


def logarithmic(u):
    p = {"drop": u(), "lr": -5 + 4 * u()}
    return p, (p["lr"] + 3) ** 2 + p["drop"]


def together(u):
    p = {"a": u(), "b": u(), "c": u()}
    return p, (1 if (p["a"] > 0.5) == (p["b"] > 0.5) else 0) + 0.5 * p["c"]


CASES = {
    additive: {"a": UNIT, "b": UNIT, "c": UNIT},
    mixed: {
        "a": UNIT,
        "n": optuna.distributions.IntDistribution(1, 8),
        "kind": optuna.distributions.CategoricalDistribution(["adam", "sgd", "rms"]),
    },
    logarithmic: {"drop": UNIT, "lr": optuna.distributions.FloatDistribution(-5, -1)},
    together: {"a": UNIT, "b": UNIT, "c": UNIT},
}

for case, space in CASES.items():
    study, numbers = optuna.create_study(), Numbers()
    for _ in range(N):
        params, value = case(numbers)
        study.add_trial(optuna.trial.create_trial(params=params, distributions=space, value=value))
    sums = dict.fromkeys(space, 0.0)
    for seed in range(8):
        evaluator = optuna.importance.FanovaImportanceEvaluator(seed=seed)
        for name, share in optuna.importance.get_param_importances(study, evaluator=evaluator).items():
            sums[name] += share / 8
    print(case.__name__, {name: round(float(share), 3) for name, share in sums.items()})
