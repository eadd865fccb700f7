package failover

import (
	"testing"
	"time"
)

var start = time.Date(2031, time.March, 4, 5, 6, 7, 0, time.UTC)

// group is the answers of three sentinels and servers P, Q and R, which tests change.
type group struct {
	watch   Watch
	now     time.Time
	reports map[string]*Report
	servers map[string]Server
	last    Look
}

const downAfter = 5 * time.Second

// newGroup returns a group with P as the primary of term 1, and replicas that follow.
func newGroup(replicas ...string) *group {
	g := &group{now: start, reports: map[string]*Report{}, servers: map[string]Server{}}
	for _, s := range []string{"s1", "s2", "s3"} {
		r := &Report{Primary: "P", Epoch: 1, DownAfter: downAfter, Quorum: 2, Sentinels: 3}
		for _, addr := range replicas {
			r.Others = append(r.Others, Other{Addr: addr})
		}
		g.reports[s] = r
	}
	p := Server{Primary: true, Lineage: "lp"}
	for _, addr := range replicas {
		p.Replicas = append(p.Replicas, Replica{Addr: addr, Online: true})
		g.servers[addr] = Server{Before: "lp"}
	}
	g.servers["P"] = p
	return g
}

// look updates the watch, writes the mark if there is one to write, and returns the step.
func (g *group) look() Step {
	look := Look{Begun: g.now, Servers: g.servers}
	for _, r := range g.reports {
		look.Reports = append(look.Reports, *r)
	}
	g.last = look
	step := g.watch.Update(look)
	if step.Mark != (Mark{}) {
		s := g.servers[step.View.Primary]
		s.Mark = step.Mark
		g.servers[step.View.Primary] = s
		step.View = g.watch.Marked(nil)
	}
	return step
}

func (g *group) pass(d time.Duration) { g.now = g.now.Add(d) }

// server changes the answer of a server.
func (g *group) server(addr string, change func(*Server)) {
	s := g.servers[addr]
	change(&s)
	g.servers[addr] = s
}

// down sets for how many sentinels a server has been down, and since when.
func (g *group) down(addr string, sentinels int, since time.Duration) {
	for _, r := range g.reports {
		for i := range r.Others {
			if r.Others[i].Addr == addr {
				r.Others[i].Down, r.Others[i].DownFor = sentinels > 0, since
				sentinels--
			}
		}
	}
}

// promote makes a server the primary of a term in the reports of all sentinels; others are the
// servers that they list beside it.
func (g *group) promote(addr string, epoch uint64, others ...string) {
	for _, r := range g.reports {
		r.Primary, r.Epoch, r.Others = addr, epoch, nil
		for _, o := range others {
			r.Others = append(r.Others, Other{Addr: o})
		}
	}
}

func wantTrusted(t *testing.T, what string, v View, want bool) {
	t.Helper()
	if (v.Doubt == nil) != want {
		t.Errorf("%s: %s is trusted: %t (%v), want %t", what, v.Primary, v.Doubt == nil, v.Doubt, want)
	}
}

func TestMark(t *testing.T) {
	for _, m := range []Mark{{}, {Epoch: 1, Lineage: "l", Primary: "p"}, {Epoch: 7, Lineage: "l", Alone: 3, Primary: "192.0.2.1:6379"}} {
		if got := ParseMark(m.String()); got != m {
			t.Errorf("%q is read as %+v, want %+v", m.String(), got, m)
		}
	}
	for _, s := range []string{"x", "1 l 0", "1 l x p", "-1 l 0 p", "1 l 0 p p"} {
		if got := ParseMark(s); got != (Mark{}) {
			t.Errorf("%q is read as %+v", s, got)
		}
	}
	older := Mark{Epoch: 1, Alone: 2}
	for _, newer := range []Mark{{Epoch: 1, Alone: 3}, {Epoch: 2, Alone: 2}} {
		if newer.Lacks(older) || !older.Lacks(newer) || newer.Lacks(newer) {
			t.Errorf("%+v beside %+v", newer, older)
		}
	}
	if other := (Mark{Epoch: 2}); !other.Lacks(older) || !older.Lacks(other) {
		t.Error("two that went apart have everything of each other")
	}
}

// TestNamed: the primary is the one that a majority of all sentinels names, not of those that
// answer.
func TestNamed(t *testing.T) {
	g := newGroup("Q")
	named := func() string {
		look := Look{}
		for _, r := range g.reports {
			look.Reports = append(look.Reports, *r)
		}
		term, _ := look.Named()
		return term.Primary
	}
	delete(g.reports, "s1")
	if named() != "P" {
		t.Errorf("two of three name P: %q", named())
	}
	g.reports["s2"].Primary = "Q"
	if named() != "" {
		t.Errorf("one and one of three: %q", named())
	}
	delete(g.reports, "s2")
	if named() != "" {
		t.Errorf("one of three: %q", named())
	}
}

// TestLease: the lease ends when so many sentinels could find the primary down that the others
// are less than needed.
func TestLease(t *testing.T) {
	whole := downAfter - downAfter/clockError
	for _, tt := range []struct {
		what   string
		change func(map[string]*Report)
		want   time.Duration // 0: none
	}{
		{"all is well", func(map[string]*Report) {}, whole},
		{"one waits for an answer", func(r map[string]*Report) { r["s1"].Silence = 2 * time.Second }, whole},
		{"two wait for an answer", func(r map[string]*Report) { r["s1"].Silence, r["s2"].Silence = 2*time.Second, time.Second }, whole - time.Second},
		{"one says nothing, and the others do not reach it", func(r map[string]*Report) {
			delete(r, "s1")
			r["s2"].Missing, r["s3"].Missing = 1, 1
		}, whole},
		{"one says nothing, and another reaches it", func(r map[string]*Report) { delete(r, "s1"); r["s2"].Missing = 1 }, 0},
		{"one says nothing, and the others have voted on no later term", func(r map[string]*Report) {
			delete(r, "s1")
			r["s2"].VoteKnown, r["s2"].Voted, r["s3"].VoteKnown, r["s3"].Voted = true, 1, true, 0
		}, whole},
		{"one says nothing, and another has voted on a later term", func(r map[string]*Report) {
			delete(r, "s1")
			r["s2"].VoteKnown, r["s2"].Voted, r["s3"].VoteKnown, r["s3"].Voted = true, 1, true, 2
		}, 0},
		{"one says nothing, and another does not tell its vote", func(r map[string]*Report) {
			delete(r, "s1")
			r["s2"].VoteKnown, r["s2"].Voted = true, 1
		}, 0},
		{"one is replacing it", func(r map[string]*Report) { r["s1"].Failing = true }, 0},
		{"one knows of a later term", func(r map[string]*Report) { r["s1"].Epoch, r["s1"].Primary = 2, "Q" }, 0},
		{"one does not reach it", func(r map[string]*Report) { r["s1"].Down = true }, whole},
		{"two do not reach it", func(r map[string]*Report) { r["s1"].Down, r["s2"].Down = true, true }, 0},
		{"one is enough to call it down", func(r map[string]*Report) {
			for _, report := range r {
				report.Quorum = 1
			}
			r["s1"].Silence = 3 * time.Second
		}, whole - 3*time.Second},
	} {
		g := newGroup("Q")
		tt.change(g.reports)
		v := g.look().View
		wantTrusted(t, tt.what, v, true)
		if got := v.Until.Sub(start); tt.want != 0 && got != tt.want || tt.want == 0 && !v.Until.IsZero() {
			t.Errorf("%s: the lease lasts %v, want %v", tt.what, got, tt.want)
		}
	}
}

// TestLeaseContinues: while a lease lasts, two sentinels are enough to prolong it; when it has
// lapsed, a sentinel may be replacing the primary, and all must report that they are not.
func TestLeaseContinues(t *testing.T) {
	g := newGroup("Q")
	first := g.look().View
	delete(g.reports, "s1")
	g.pass(time.Second)
	second := g.look().View
	if second.Until.Sub(first.Until) != time.Second {
		t.Errorf("two of three prolong the lease by %v, want a second", second.Until.Sub(first.Until))
	}
	delete(g.reports, "s2")
	g.pass(time.Second)
	if third := g.look().View; third.Until != second.Until || !third.Holds(second.Lineage, g.now) {
		t.Errorf("one of three: the lease is %v, want what it was, %v", third.Until, second.Until)
	}
	g.pass(downAfter)
	g.reports["s2"] = &Report{Primary: "P", Epoch: 1, DownAfter: downAfter, Quorum: 2, Sentinels: 3}
	lapsed := g.look().View
	if lapsed.Holds(lapsed.Lineage, g.now) {
		t.Error("two of three bring a lease back that had lapsed")
	}
	g.reports["s1"] = g.reports["s2"]
	if again := g.look().View; !again.Holds(lapsed.Lineage, g.now) {
		t.Error("three of three do not bring the lease back")
	}
}

// TestConfirmations: all replicas that follow have to confirm a write, at least one, and none
// when no server could be promoted.
func TestConfirmations(t *testing.T) {
	for _, tt := range []struct {
		what      string
		change    func(*group)
		confirm   int
		following int
	}{
		{"both follow", func(*group) {}, 2, 2},
		{"one hangs", func(g *group) { g.servers["P"].Replicas[0].Lag = 2 }, 1, 1},
		{"one is being filled", func(g *group) { g.servers["P"].Replicas[0].Online = false }, 1, 1},
		{"both hang", func(g *group) { g.servers["P"].Replicas[0].Lag, g.servers["P"].Replicas[1].Lag = 2, 3 }, 1, 0},
		{"both are gone, one just now", func(g *group) {
			g.server("P", func(s *Server) { s.Replicas = nil })
			g.down("Q", 3, time.Minute)
			g.down("R", 3, time.Second)
		}, 1, 0},
		{"both are gone, as one sentinel says", func(g *group) {
			g.server("P", func(s *Server) { s.Replicas = nil })
			g.down("Q", 3, time.Minute)
			g.down("R", 1, time.Minute)
		}, 1, 0},
		{"both are gone", func(g *group) {
			g.server("P", func(s *Server) { s.Replicas = nil })
			g.down("Q", 2, time.Minute)
			g.down("R", 3, time.Minute)
		}, 0, 0},
		{"only one follows that is never promoted", func(g *group) {
			g.servers["P"].Replicas[1].Online = false
			for _, r := range g.reports {
				r.Others[0].Barred = true
			}
		}, 2, 1},
	} {
		g := newGroup("Q", "R")
		tt.change(g)
		if v := g.look().View; v.Confirm != tt.confirm || len(v.Following) != tt.following || v.Listed != 2 {
			t.Errorf("%s: %d confirm of %d that follow and %d that are listed; want %d of %d", tt.what, v.Confirm, len(v.Following), v.Listed, tt.confirm, tt.following)
		}
	}
}

// TestFallsBehind: a replica that is online but stays behind is not waited for after two seconds.
func TestFallsBehind(t *testing.T) {
	g := newGroup("Q", "R")
	g.server("P", func(s *Server) { s.Offset, s.Replicas[0].Offset, s.Replicas[1].Offset = 100, 50, 100 })
	for _, want := range []int{2, 2, 1, 1} {
		if v := g.look().View; v.Confirm != want {
			t.Errorf("after %v %d have to confirm, want %d", g.now.Sub(start), v.Confirm, want)
		}
		g.pass(time.Second)
	}
	g.server("P", func(s *Server) { s.Replicas[0].Offset = 100 })
	if v := g.look().View; v.Confirm != 2 {
		t.Errorf("when it has caught up %d have to confirm, want 2", v.Confirm)
	}
}

// TestNobodyIsDroppedInTheDark: a process that reaches too few sentinels goes on waiting for a
// replica that seems to hang. The other sentinels may be about to promote it.
func TestNobodyIsDroppedInTheDark(t *testing.T) {
	g := newGroup("Q", "R")
	g.look()
	delete(g.reports, "s1")
	delete(g.reports, "s2")
	g.servers["P"].Replicas[0].Lag = 2
	g.pass(time.Second)
	if v := g.look().View; v.Confirm != 2 {
		t.Errorf("in the dark %d have to confirm, want 2", v.Confirm)
	}
	g.reports["s1"] = g.reports["s3"]
	g.pass(time.Second)
	if v := g.look().View; v.Confirm != 1 {
		t.Errorf("with two sentinels %d have to confirm, want 1", v.Confirm)
	}

	g = newGroup("Q", "R") // two name the primary, and one of them does not reach it any more
	g.look()
	delete(g.reports, "s1")
	g.reports["s2"].Down = true
	g.servers["P"].Replicas[0].Lag = 2
	g.pass(time.Second)
	if v := g.look().View; v.Confirm != 2 || v.Doubt != nil {
		t.Errorf("while the lease is not prolonged %d have to confirm, want 2; %v", v.Confirm, v.Doubt)
	}
}

// TestAloneIsMarked: before the primary acknowledges a write alone, the mark is written, and anew
// when a server was back meanwhile.
func TestAloneIsMarked(t *testing.T) {
	g := newGroup("Q")
	alone := func(want uint64) {
		t.Helper()
		if v := g.look().View; v.Confirm != 0 || g.servers["P"].Mark.Alone != want {
			t.Errorf("%d have to confirm, alone for the time %d, want %d", v.Confirm, g.servers["P"].Mark.Alone, want)
		}
	}
	g.look()
	replicas := g.servers["P"].Replicas
	g.server("P", func(s *Server) { s.Replicas = nil })
	g.down("Q", 3, 3*time.Second)
	alone(1)
	g.pass(time.Second)
	g.down("Q", 3, 4*time.Second)
	alone(1)
	g.pass(5 * time.Second)
	g.down("Q", 3, 3*time.Second) // it was back between two looks
	alone(2)
	g.pass(time.Second)
	g.down("Q", 0, 0)
	g.server("P", func(s *Server) { s.Replicas = replicas })
	if v := g.look().View; v.Confirm != 1 || g.servers["P"].Mark.Alone != 2 {
		t.Errorf("when it follows again %d have to confirm, alone %d", v.Confirm, g.servers["P"].Mark.Alone)
	}
}
