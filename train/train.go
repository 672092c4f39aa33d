// Package train trains models that implement model.Trainable. docs/training.md describes the
// losses, the negatives and the options.
//
// Begin with package recipe, which defines the options of a training run, and NewTrainer. Package
// run stores a run in a folder and resumes it after any interruption. Package search searches for
// good options. Package clustered creates checkpoints for benchmarks.
//
// The same recipe, graph and kernel tier give the same parameters, byte for byte, for any number of
// threads, because the threads divide outputs between them but never split a sum. The initial
// parameters are the same on every tier and platform, too.
package train
