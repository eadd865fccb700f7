package failover

import (
	"errors"
	"slices"
	"testing"
	"time"
)

// promoted returns a group of P, Q and R in which P was the primary of term 1 and a process has
// its mark; then Q, which followed, is the primary of a later term.
func promoted(epoch uint64) *group {
	g := newGroup("Q", "R")
	g.look()
	mark := g.servers["P"].Mark
	for _, addr := range []string{"Q", "R"} {
		g.server(addr, func(s *Server) { s.Mark = mark })
	}
	g.server("Q", func(s *Server) { s.Primary, s.Lineage = true, "lq" })
	delete(g.servers, "P")
	g.promote("Q", epoch, "P", "R")
	return g
}

// TestSuccessorIsTrusted: a replica that followed and is promoted next has every acknowledged
// write.
func TestSuccessorIsTrusted(t *testing.T) {
	g := promoted(2)
	v := g.look().View
	wantTrusted(t, "the next term", v, true)
	if want := (Mark{Epoch: 2, Lineage: "lq", Primary: "Q"}); g.servers["Q"].Mark != want || v.Lineage != "lq.2" {
		t.Errorf("the mark is %+v, the lineage %q", g.servers["Q"].Mark, v.Lineage)
	}
}

// TestGapInTerms: numbers may be missing after an election that failed, and then there was no
// term between. Only a process that saw the term before a moment ago can rely on that.
func TestGapInTerms(t *testing.T) {
	g := promoted(3)
	g.pass(sureTime + downAfter - time.Second)
	wantTrusted(t, "who saw the term before", g.look().View, true)

	g = promoted(3)
	g.pass(sureTime + downAfter)
	wantTrusted(t, "who saw it too long ago", g.look().View, false)

	g = promoted(3)
	g.watch = Watch{}
	wantTrusted(t, "who has seen nothing", g.look().View, false)
	g.servers["P"] = Server{Mark: Mark{Epoch: 1, Lineage: "lp"}}
	wantTrusted(t, "when all answer and none has more", g.look().View, true)
}

// TestUnwatchedTerm: a process does not trust the next primary without more if it did not watch
// the term before to its end, or saw that the server did not follow: the primary may have gone on
// without it.
func TestUnwatchedTerm(t *testing.T) {
	g := promoted(2)
	g.pass(sureTime + downAfter)
	wantTrusted(t, "who did not watch", g.look().View, false)

	g = promoted(2)
	g.watch = Watch{}
	wantTrusted(t, "who has just begun", g.look().View, false)

	for _, there := range []bool{true, false} { // the other servers, which the primary would need
		g = newGroup("Q", "R")
		g.look()
		p := g.servers["P"]
		delete(g.servers, "P") // this process does not reach it, others may
		for range 10 {
			g.pass(time.Second)
			if !there {
				g.down("Q", 3, time.Second)
				g.down("R", 3, time.Second)
			}
			g.look()
		}
		g.servers["Q"] = Server{Primary: true, Lineage: "lq", Before: "lp", Mark: p.Mark}
		g.promote("Q", 2, "P", "R")
		wantTrusted(t, "who watched the sentinels only", g.look().View, there)
	}

	g = newGroup("Q", "R")
	g.server("P", func(s *Server) { s.Replicas[0].Lag = 5 })
	g.look()
	p := g.servers["P"]
	delete(g.servers, "P")
	g.servers["Q"] = Server{Primary: true, Lineage: "lq", Before: "lp", Mark: p.Mark}
	g.promote("Q", 2, "P", "R")
	wantTrusted(t, "a replica that hung", g.look().View, false)
}

// TestFilledByOneThatRestarted: a server that was filled by a primary has no less than that one,
// whose history is not the one of the mark since it restarted.
func TestFilledByOneThatRestarted(t *testing.T) {
	mark := Mark{Epoch: 1, Lineage: "a1", Primary: "A"}
	for offset, more := range map[int64]bool{100: false, 101: true} {
		l := Look{Servers: map[string]Server{
			"A": {Primary: true, Lineage: "a2", Offset: offset, Mark: mark},
			"C": {Primary: true, Lineage: "c2", Before: "a2", Branched: 100, Mark: mark},
		}}
		if got := l.exceeds("A", "C"); got != more {
			t.Errorf("at %d, when 100 were copied: it has more: %t", offset, got)
		}
		c := l.Servers["C"]
		c.Lineage, c.Before, c.Offset, c.Branched = "a2", "", 100, 0
		l.Servers["C"] = c
		if got := l.exceeds("A", "C"); got != more {
			t.Errorf("at %d, when it follows at 100: it has more: %t", offset, got)
		}
	}
}

// TestLessOfTheSame: of two servers with one mark, the one with the longer part of that history
// has more, and one without a part of it has nothing.
func TestLessOfTheSame(t *testing.T) {
	for _, tt := range []struct {
		what     string
		promoted Server
		trusted  bool
	}{
		{"as far as the other", Server{Before: "lp", Branched: 100}, true},
		{"not so far", Server{Before: "lp", Branched: 99}, false},
		{"of another history", Server{Before: "lx", Branched: 200}, false},
	} {
		for _, before := range []string{"lp", "restarted"} {
			g := newGroup("Q", "R")
			g.look()
			mark := g.servers["P"].Mark
			tt.promoted.Primary, tt.promoted.Mark = true, mark
			g.servers = map[string]Server{"P": {Primary: true, Lineage: before, Offset: 100, Mark: mark}, "Q": tt.promoted}
			g.promote("Q", 4, "P")
			step := g.look()
			trusted := tt.trusted && before == "lp" // after a restart its history does not show how long it was
			wantTrusted(t, tt.what+", the primary is "+before, step.View, trusted)
			if (step.Refill == "P") == trusted {
				t.Errorf("%s, the primary is %s: filled from %q", tt.what, before, step.Refill)
			}
		}
	}
}

// TestStaleReturns: a former primary that never followed is promoted again. While another server
// may have more it is refused; when the other one is there and still is a primary, it is filled
// from that.
func TestStaleReturns(t *testing.T) {
	for _, tt := range []struct {
		what  string
		fresh bool // the process has seen nothing before
	}{{"who knows the term between", false}, {"who has seen nothing", true}} {
		g := promoted(2)
		g.look()
		old := g.servers["R"].Mark
		q := g.servers["Q"]
		g.servers["P"] = Server{Primary: true, Lineage: "lp", Mark: old}
		g.promote("P", 3, "Q")
		delete(g.servers, "Q")
		delete(g.servers, "R")
		if tt.fresh {
			g.watch = Watch{}
		}
		step := g.look()
		wantTrusted(t, tt.what, step.View, false)
		if step.Refill != "" || step.Mark != (Mark{}) {
			t.Errorf("%s: %+v", tt.what, step)
		}
		g.servers["Q"] = q
		step = g.look()
		wantTrusted(t, tt.what+", when the other one is back", step.View, false)
		if step.Refill != "Q" || step.From != old {
			t.Errorf("%s: filled from %q with the mark %+v", tt.what, step.Refill, step.From)
		}
		g.servers["Q"] = Server{Mark: q.Mark, Follows: "P"}
		if step = g.look(); step.Refill != "Q" {
			t.Errorf("%s: filled from %q; want the one that was told to follow and is not filled yet", tt.what, step.Refill)
		}
		g.servers["Q"] = Server{Mark: old, Follows: "P", Linked: true}
		if step = g.look(); step.Refill != "" {
			t.Errorf("%s: filled from %q, which has been filled itself", tt.what, step.Refill)
		}
		g.servers["Q"] = q
		g.look()
		for _, almost := range []Server{
			{Follows: "Q", Linked: true, Mark: old, Offset: 100},
			{Follows: "Q", Linked: false, Mark: q.Mark, Offset: 100},
			{Follows: "R", Linked: true, Mark: q.Mark, Offset: 100},
			{Follows: "Q", Linked: true, Mark: q.Mark, Offset: q.Offset - 1},
		} {
			g.servers["P"] = almost
			if step = g.look(); step.Finish || step.View.Doubt == nil {
				t.Errorf("%s: it goes on as %+v: %t, %v", tt.what, almost, step.Finish, step.View.Doubt)
			}
		}
		filled := Server{Follows: "Q", Linked: true, Mark: q.Mark, Offset: q.Offset}
		g.servers["P"] = filled
		if step = g.look(); !step.Finish {
			t.Errorf("%s: it has everything, and is not told to go on", tt.what)
		}
		g.servers["P"] = Server{Primary: true, Lineage: "lp2", Before: q.Lineage, Branched: q.Offset, Mark: q.Mark}
		wantTrusted(t, tt.what+", when it has everything", g.look().View, true)
	}
}

// TestNeitherHasEverything: of two servers that each have acknowledged writes which the other one lacks,
// neither is filled from the other one: that would lose some of them.
func TestNeitherHasEverything(t *testing.T) {
	g := newGroup("Q")
	wentAlone := Mark{Epoch: 1, Lineage: "lp", Alone: 1, Primary: "P"}
	g.servers["P"] = Server{Primary: true, Lineage: "lp", Mark: wentAlone}
	g.servers["Q"] = Server{Primary: true, Lineage: "lq", Mark: Mark{Epoch: 2, Lineage: "lq", Primary: "Q"}}
	g.promote("P", 3, "Q")
	step := g.look()
	wantTrusted(t, "a primary that lacks writes", step.View, false)
	if step.Refill != "" || step.Mark != (Mark{}) {
		t.Errorf("it is filled from %q", step.Refill)
	}
}

// TestFormerPrimaryRejoins: a former primary that returns and has nothing more should follow,
// unless a sentinel may be about to promote it.
func TestFormerPrimaryRejoins(t *testing.T) {
	for _, tt := range []struct {
		what   string
		change func(*group)
		want   string
	}{
		{"it is a primary by its own account", func(*group) {}, "P"},
		{"it follows already", func(g *group) { g.server("P", func(s *Server) { s.Primary = false }) }, ""},
		{"the primary names it among its replicas", func(g *group) {
			g.server("Q", func(s *Server) { s.Replicas = append(s.Replicas, Replica{Addr: "P"}) })
		}, ""},
		{"a sentinel replaces the primary", func(g *group) { g.reports["s1"].Failing = true }, ""},
		{"a sentinel says nothing", func(g *group) { delete(g.reports, "s1") }, ""},
		{"it has more", func(g *group) { g.server("P", func(s *Server) { s.Mark.Alone++ }) }, ""},
		{"the sentinels do not reach it", func(g *group) { g.down("P", 2, time.Second) }, ""},
	} {
		g := promoted(2)
		mark := g.servers["Q"].Mark
		g.server("Q", func(s *Server) { s.Replicas = []Replica{{Addr: "R", Online: true}} })
		g.look()
		g.servers["P"] = Server{Primary: true, Lineage: "lp", Mark: mark}
		tt.change(g)
		g.pass(time.Second)
		step := g.look()
		addr, has := g.watch.Returned(g.last)
		if addr != tt.want || tt.want != "" && (has != mark || !slices.Contains(step.Apart, addr)) {
			t.Errorf("%s: %q is told to follow, with the mark %+v, of %q", tt.what, addr, has, step.Apart)
		}
	}
}

// TestPatience: a server that may have more is waited for, but not for ever.
func TestPatience(t *testing.T) {
	g := promoted(2)
	g.look()
	g.servers["P"] = Server{Primary: true, Lineage: "lp", Mark: Mark{Epoch: 1, Lineage: "lp"}}
	delete(g.servers, "Q")
	g.promote("P", 3, "Q")
	g.down("Q", 3, defaultPatience-time.Second)
	wantTrusted(t, "nearly a minute", g.look().View, false)
	g.down("Q", 1, defaultPatience)
	wantTrusted(t, "a minute for one sentinel", g.look().View, false)
	g.down("Q", 2, defaultPatience)
	v := g.look().View
	wantTrusted(t, "a minute", v, true)
	if !v.Lost {
		t.Error("the loss of acknowledged writes is not reported")
	}

	g = promoted(3)
	g.watch = Watch{Patience: time.Second}
	g.down("P", 3, time.Second)
	wantTrusted(t, "as long as the operator decided", g.look().View, true)
}

// TestAloneIsMissed: a replica that hung while the primary went on alone is promoted. Its term is
// the next one, and still it lacks acknowledged writes.
func TestAloneIsMissed(t *testing.T) {
	g := newGroup("Q")
	g.look()
	mark := g.servers["P"].Mark
	g.server("P", func(s *Server) { s.Replicas = nil })
	g.down("Q", 3, 3*time.Second)
	g.look()
	p := g.servers["P"]
	delete(g.servers, "P")
	g.servers["Q"] = Server{Primary: true, Lineage: "lq", Before: "lp", Mark: mark}
	g.promote("Q", 2, "P")
	wantTrusted(t, "one that hung", g.look().View, false)
	g.servers["P"] = p
	if step := g.look(); step.Refill != "P" {
		t.Errorf("it is not filled from the one that went on alone: %v", step.View.Doubt)
	}
	g.promote("P", 3, "Q")
	wantTrusted(t, "the one that went on alone", g.look().View, true)
}

// TestMarkFails: a primary whose mark is not on record is not trusted.
func TestMarkFails(t *testing.T) {
	g := promoted(2)
	look := Look{Begun: g.now, Servers: g.servers}
	for _, r := range g.reports {
		look.Reports = append(look.Reports, *r)
	}
	step := g.watch.Update(look)
	if step.Mark == (Mark{}) || step.From != g.servers["Q"].Mark {
		t.Fatalf("the step is %+v", step)
	}
	wantTrusted(t, "a mark that could not be written", g.watch.Marked(errors.New("no")), false)
	wantTrusted(t, "one that could", g.look().View, true)
}

// TestReplicaIsNoPrimary: a replica is not trusted, whatever sentinels report.
func TestReplicaIsNoPrimary(t *testing.T) {
	g := newGroup("Q")
	g.server("P", func(s *Server) { s.Primary = false })
	wantTrusted(t, "a replica", g.look().View, false)
	g.server("P", func(s *Server) { s.Primary = true })
	wantTrusted(t, "a primary", g.look().View, true)
	g.server("P", func(s *Server) { s.Primary = false })
	wantTrusted(t, "one that became a replica", g.look().View, false)
	for _, r := range g.reports {
		r.Primary = ""
	}
	if v := (&Watch{}).Update(Look{Begun: start}).View; v.Doubt == nil {
		t.Error("no primary is named, and one is trusted")
	}
}

// TestRestart: a primary that restarts in its term has another lineage and a lease of its own. A
// server that did not follow it since may lack writes.
func TestRestart(t *testing.T) {
	g := newGroup("Q")
	before := g.look().View
	old := g.servers["P"].Mark
	g.server("P", func(s *Server) { s.Lineage = "lp2" })
	g.pass(time.Second)
	after := g.look().View
	wantTrusted(t, "a restart", after, true)
	if after.Lineage == before.Lineage || after.Holds(before.Lineage, g.now) || g.servers["P"].Mark.Lineage != "lp2" || !old.Lacks(g.servers["P"].Mark) {
		t.Errorf("the lineage was %q and is %q, the mark %+v", before.Lineage, after.Lineage, g.servers["P"].Mark)
	}
}

// TestRestartedPrimaryHasMore: a primary that restarted in its term, and has marked that, has
// more than one that did not follow it. When it follows that one, it has not.
func TestRestartedPrimaryHasMore(t *testing.T) {
	before, after := Mark{Epoch: 1, Lineage: "a1", Primary: "A"}, Mark{Epoch: 1, Lineage: "a2", Primary: "A"}
	promoted := Server{Primary: true, Lineage: "c2", Before: "c1", Branched: 1, Mark: before}
	for _, tt := range []struct {
		what string
		a    Server
		more bool
	}{
		{"restarted", Server{Primary: true, Lineage: "a2", Mark: before}, true},
		{"restarted, and marked since", Server{Primary: true, Lineage: "a2", Mark: after}, true},
		{"a replica", Server{Follows: "C", Linked: true, Lineage: "c2", Mark: before}, false},
	} {
		l := Look{Servers: map[string]Server{"A": tt.a, "C": promoted}}
		if got := l.exceeds("A", "C"); got != tt.more {
			t.Errorf("%s: it has more: %t", tt.what, got)
		}
		if l.exceeds("C", "A") {
			t.Errorf("%s: the one that did not follow has more", tt.what)
		}
	}
}
