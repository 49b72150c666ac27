"""Training itself: the loop over epochs, one training step, the update of the weights, and what they need of a device."""
