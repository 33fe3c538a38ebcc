"""Training of image networks as in Hein et al. 2019, with checkpoints."""

from farfield.estimators.images.settings import ImageSettings
from farfield.estimators.images.training import EpochRecord, TrainedImages, train_images

__all__ = ["EpochRecord", "ImageSettings", "TrainedImages", "train_images"]
