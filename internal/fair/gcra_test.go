package fair

import (
	"math/rand/v2"
	"testing"
	"time"
)

// taken is a weight that a bucket let pass, and when.
type taken struct {
	at     time.Duration
	weight int64
}

// TestRateIsKeptInEveryWindow tries random requests, and compares each answer with a level that is
// kept apart: what passes in any window is at most the burst and what is refilled in it, what the
// level allows is never refused, and the time to wait is exact.
func TestRateIsKeptInEveryWindow(t *testing.T) {
	const runs, requests = 100, 120
	random := rand.New(rand.NewPCG(1, 2))
	for run := range runs {
		each := time.Duration(1+random.IntN(1000)) * time.Millisecond // in which one unit is refilled
		burst := int64(1 + random.IntN(20))
		now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
		begin, level := now, time.Duration(0)
		l := NewLimiter(func() time.Time { return now })
		bucket := Bucket{Key: "a", Limit: Limit{Burst: burst, Per: time.Duration(burst) * each}}
		var passed []taken
		for range requests {
			pause := time.Duration(random.Int64N(int64(2 * each)))
			if random.IntN(3) == 0 {
				pause = 0
			}
			now, level = now.Add(pause), max(level-pause, 0)
			weight := 1 + random.Int64N(burst)
			cost := time.Duration(weight) * each
			wait := l.Take(weight, bucket)
			if allowed := level+cost <= bucket.Limit.Per; allowed != (wait == 0) {
				t.Fatalf("run %d: level %s, weight %d of %d: waits %s", run, level, weight, burst, wait)
			}
			if wait == 0 {
				level += cost
				passed = append(passed, taken{now.Sub(begin), weight})
				continue
			}
			if want := level + cost - bucket.Limit.Per; wait != want {
				t.Fatalf("run %d: the time to wait is %s, want %s", run, wait, want)
			}
		}
		for i := range passed {
			sum := int64(0)
			for _, p := range passed[i:] {
				sum += p.weight
				if most := time.Duration(burst)*each + p.at - passed[i].at; time.Duration(sum)*each > most {
					t.Fatalf("run %d: %d units pass in %s, with a burst of %d and one each %s", run, sum, p.at-passed[i].at, burst, each)
				}
			}
		}
	}
}

// TestRaiseOnlyRaises: a bucket owes at least what is said, and what it owes already stays.
func TestRaiseOnlyRaises(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	l := NewLimiter(func() time.Time { return now })
	bucket := Bucket{Key: "a", Limit: Limit{Burst: 10, Per: 10 * time.Second}}
	for _, step := range []struct{ said, wait time.Duration }{{3 * time.Second, 0}, {10 * time.Second, time.Second}, {2 * time.Second, time.Second}, {time.Hour, time.Second}} {
		l.Raise(bucket, step.said)
		if wait := l.Wait(1, bucket); wait != step.wait {
			t.Errorf("after %s a unit waits %s, want %s", step.said, wait, step.wait)
		}
	}
}
