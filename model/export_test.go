package model

// SinCos exports sinCos to the definitions of reference scores in tests. TestSinCosWithinOneUlp
// checks it.
var SinCos = sinCos
