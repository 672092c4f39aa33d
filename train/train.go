// Package train trains models. A Trainer trains every model that implements model.Trainable;
// docs/training.md describes the losses, the negatives and the options. Random returns initial
// parameters.
//
// Begin with package recipe, which has the options of a training run, and NewTrainer. Package run
// keeps a run in a folder and resumes it after any interruption, package search searches for good
// options, and package clustered makes checkpoints for benchmarks.
//
// The same recipe, graph and seed give the same parameters, byte for byte, for any number of
// threads: work is split over outputs, never over a sum. Initial parameters are also the same on
// every backend and platform.
package train
