package redis

import (
	"context"
	"fmt"
	"time"
)

// sentinelAdvice returns advice from the replies of a sentinel to SENTINEL MASTER and SENTINEL
// REPLICAS.
func sentinelAdvice(primary map[string]string, replicas []map[string]string) (sentences []string) {
	sentences = append(sentences, countAdvice(primary)...)
	if _, known := primary["down-after-milliseconds"]; known {
		switch after := number(primary, "down-after-milliseconds"); {
		case after < minDownAfter:
			sentences = append(sentences, fmt.Sprintf("down-after-milliseconds is %d: a primary that is busy for a moment is replaced; "+
				"set it to 5000 with SENTINEL SET on each sentinel", after))
		case after > maxDownAfter:
			sentences = append(sentences, fmt.Sprintf("down-after-milliseconds is %d: without its primary the store is away for at least so long; "+
				"set it to 5000 with SENTINEL SET on each sentinel", after))
		}
	}
	priority := ""
	for _, r := range replicas {
		switch p := r["slave-priority"]; {
		case p == "" || p == "0": // one with 0 is never promoted
		case priority == "":
			priority = p
		case p != priority:
			return append(sentences, "replicas have different values of replica-priority: one that lacks acknowledged writes may be promoted before one that has them, "+
				"and is refused here until they are back; set the same replica-priority on all of them, or 0 on those that must not be promoted")
		}
	}
	return sentences
}

// countAdvice returns advice about the number of sentinels and the quorum.
func countAdvice(primary map[string]string) []string {
	if _, known := primary["num-other-sentinels"]; !known {
		return nil
	}
	all, quorum := int(number(primary, "num-other-sentinels"))+1, int(number(primary, "quorum"))
	var sentences []string
	switch {
	case all < 3:
		sentences = append(sentences, fmt.Sprintf("%s: when one is gone, the primary cannot be replaced; run three, on three machines", counted(all)))
	case all%2 == 0:
		sentences = append(sentences, fmt.Sprintf("%s, an even number: half of them decide nothing, and one less would be as good; add one or remove one", counted(all)))
	}
	switch {
	case quorum > all:
		sentences = append(sentences, fmt.Sprintf("quorum is %d of %s: the primary is never replaced; set it to %d with SENTINEL SET on each sentinel", quorum, plural(all), all/2+1))
	case quorum <= all/2:
		sentences = append(sentences, fmt.Sprintf("quorum is %d of %s, less than a majority: sentinels that are cut off begin to replace a primary that is well; "+
			"set it to %d with SENTINEL SET on each sentinel", quorum, plural(all), all/2+1))
	}
	return sentences
}

func counted(sentinels int) string {
	if sentinels == 1 {
		return "there is 1 sentinel"
	}
	return "there are " + plural(sentinels)
}

func plural(sentinels int) string {
	if sentinels == 1 {
		return "1 sentinel"
	}
	return fmt.Sprintf("%d sentinels", sentinels)
}

// advise returns the advice from the replies of all sentinels. One that does not answer adds
// none.
func (s *sentinels) advise(ctx context.Context) (sentences []string) {
	untilDone := func(string) time.Duration { return openTime } // ctx has less
	for _, a := range s.ask(ctx, "", untilDone) {
		if a.err == nil {
			sentences = append(sentences, sentinelAdvice(a.primary, a.replicas)...)
		}
	}
	return sentences
}
