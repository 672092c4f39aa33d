// Package train makes the parameters of models. A Trainer trains MQuinE and MQuadE
// (docs/training.md), and a Run keeps such a training in a folder, from which it can go on after any
// interruption. Random has the parameters with which a training begins.
//
// The same configuration, graph and seed give the same parameters, byte for byte, for any number
// of threads: work is split over outputs, never over a sum. What Random makes is also the same on every
// backend and every platform.
package train
