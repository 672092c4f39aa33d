package model

// SinCos is sinCos, for definitions of scores. TestSinCosWithinOneUlp checks it.
var SinCos = sinCos
