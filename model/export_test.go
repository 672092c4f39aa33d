package model

// SinCos is sinCos, which definitions of scores take as given; TestSinCos checks it.
var SinCos = sinCos
