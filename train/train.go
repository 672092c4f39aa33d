// Package train makes the parameters of models. A Trainer trains every model that is a model.Trainable
// (docs/training.md). Random returns the parameters with which a training begins.
//
// Package recipe has the options of a training, package run keeps a training in a folder from which it goes on after any
// interruption, package search looks for good options, and package clustered makes checkpoints for benchmarks.
//
// The same recipe, graph and seed give the same parameters, byte for byte, for any number of threads: work is split
// over outputs, never over a sum. What Random makes is also the same on every backend and every platform.
package train
