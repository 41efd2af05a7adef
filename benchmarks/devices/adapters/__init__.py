"""One module a way to the device. ``_epoch`` has the batches, and the step that uses them."""
