package proc

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestPeakRSS(t *testing.T) {
	const large = 200 << 20
	before := PeakRSS()
	if before == 0 {
		t.Skip("the peak memory is not known on this system")
	}
	block := make([]byte, large)
	for i := 0; i < len(block); i += 4096 {
		block[i] = 1
	}
	assert.Greater(t, PeakRSS(), int64(large))
	assert.Less(t, PeakRSS(), before+int64(2*large))
	assert.Len(t, block, large)
}
