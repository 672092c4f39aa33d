package toy

import (
	"testing"

	"pgregory.net/rapid"
)

func TestMax(t *testing.T) {
	if Max(1, 2) != 2 || Max(2, 1) != 2 {
		t.Fail()
	}
}

func TestSum(t *testing.T) {
	if Sum(3) != 6 {
		t.Fail()
	}
}

func TestSumOfAny(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		if n := rapid.IntRange(0, 100).Draw(t, "n"); Sum(n) != n*(n+1)/2 {
			t.Fatalf("Sum(%d)", n)
		}
	})
}

func TestWrong(t *testing.T) { t.Fatal("this test always fails") }
