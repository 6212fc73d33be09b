# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
import rueda
from rueda import training

rueda.init()
# One text sets the policy, the cap, and the number of workers from which the rate is scaled.
rate = training.LearningRate(
    0.001, "capped:1.5@4", warmup_steps=100, schedule=training.CosineDecay(last_step=1000, floor=0.1)
)
if rueda.rank() == 0:
    # With 4 ranks: "learning rate: 0.001 becomes 0.0015 with 4 workers (policy capped: the factor is 1.5, the smaller of
    # 4 workers and the cap 1.5); warm-up over 100 steps; cosine decay to 0.00015 until step 1000".
    print(rate.summary())
expected = 0.0015 if rueda.size() >= 4 else 0.001
assert abs(rate.at(100) - expected) < 1e-12 and abs(rate.at(1000) - 0.1 * expected) < 1e-12

# Lowers the rate if the loss of the evaluation stops improving.
plateau = training.Plateau(factor=0.5, patience=1)
for loss in (1.0, 0.5, 0.5, 0.5):
    plateau.observe(loss)
assert plateau.factor == 0.5

# The velocity of this trainer sums gradients that are multiplied by the rate. So the velocity is corrected when the rate
# changes. The weight then takes the same course as with torch.optim.SGD, which multiplies its velocity by the rate.
weight, velocity = 1.0, 0.0
usual_weight, usual_velocity = 1.0, 0.0
for step in range(200):
    velocity *= training.momentum_correction(rate.at(step - 1), rate.at(step))
    velocity = 0.9 * velocity + rate.at(step) * weight  # the gradient of weight² / 2
    weight -= velocity
    usual_velocity = 0.9 * usual_velocity + usual_weight
    usual_weight -= rate.at(step) * usual_velocity
assert abs(weight - usual_weight) < 1e-12
