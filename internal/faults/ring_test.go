//go:build e2e

package faults

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"gatehouse.example/storage"
	"gatehouse.example/storage/redis"
	"gatehouse.example/storage/redis/redistest"
)

// ring is a siege of a cluster of three primaries whose slots move.
type ring struct {
	*siege
	cluster *redistest.Cluster
	store   *storage.Store // to check what answers do not show
	moved   int            // slots, over all
	told    map[string]int // error replies of nodes, by their first word
	down    int            // answers that report a part of the keys as down
}

// newRing starts a cluster and a load on it. With replicas a part of the keys can be down alone:
// without that setting, a primary that is gone takes all others down until its replica has taken
// its place.
func newRing(t *testing.T, replicas int) *ring {
	t.Helper()
	cluster := redistest.StartCluster(t, 3, replicas, redistest.Config{Persistent: true, Args: []string{"--cluster-require-full-coverage", "no"}})
	r := &ring{siege: siegeOf(t, cluster.URL()), cluster: cluster, told: map[string]int{}}
	r.store = openStore(t, r.fleet)
	r.journal.forgets = replicas > 0
	r.begin(r.seed)
	return r
}

// openStore opens the store of the processes.
func openStore(t *testing.T, f *fleet) *storage.Store {
	t.Helper()
	backend, err := redis.Open(t.Context(), redis.Options{URL: f.config.Store})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = backend.Close() })
	key, _ := base64.StdEncoding.DecodeString(f.config.MasterKeys)
	store, err := storage.New(backend, storage.Options{Issuer: f.issuer, MasterKeys: [][]byte{key}})
	if err != nil {
		t.Fatal(err)
	}
	return store
}

// keys returns one key of each kind that a family needs, or that every request needs.
func (r *ring) keys(h *stand) []string {
	r.t.Helper()
	demo, err := r.store.User(r.t.Context(), personName)
	if err != nil {
		r.t.Fatal(err)
	}
	return []string{
		grantKey(r.t, h.code.code),
		grantKey(r.t, h.family.code),
		"gatehouse:client:" + h.client,
		"gatehouse:client-grants:" + h.client,
		r.lists("gatehouse:clients:*"),
		"gatehouse:session:" + hash(h.cookie("authz_session")),
		"gatehouse:user:" + personName,
		"gatehouse:user-grants:" + demo.Subject,
		"gatehouse:users:all",
		"gatehouse:keyset:signing",
	}
}

// lists returns a list whose key has this pattern.
func (r *ring) lists(pattern string) string {
	r.t.Helper()
	var found []string
	for _, node := range r.primaries() {
		found = append(found, node.Client().Keys(r.t.Context(), pattern).Val()...)
	}
	if len(found) == 0 {
		r.t.Fatalf("there is no %s", pattern)
	}
	return found[r.random.IntN(len(found))]
}

// grantKey returns the key of the grant of a code.
func grantKey(t *testing.T, code string) string {
	t.Helper()
	id, ok := storage.CodeGrant(code)
	if !ok {
		t.Fatalf("%q is not a code", code)
	}
	return "gatehouse:grant:" + id
}

func hash(secret string) string {
	sum := sha256.Sum256([]byte(secret))
	return hex.EncodeToString(sum[:])
}

// cookie returns a cookie of the visitor's browser.
func (h *stand) cookie(name string) string {
	h.t.Helper()
	site, _ := url.Parse(h.fleet.issuer)
	for _, c := range h.visitor.jar.Cookies(site) {
		if strings.HasPrefix(c.Name, name+"_") { // what follows is the issuer's
			return c.Value
		}
	}
	h.t.Fatalf("there is no cookie %s", name)
	return ""
}

// moves moves the slot of a key in use. While it is half moved, before its keys move and
// afterwards, all requests work, and so they do when the slot has a new owner.
func (r *ring) moves() {
	r.t.Helper()
	before, after := r.stand(r.at[r.moved%2]), r.stand(r.at[1-r.moved%2])
	keys := r.keys(before)
	key, goesOn, calls := keys[r.moved%len(keys)], r.random.IntN(2), 0
	r.shift(key, func() {
		r.more(12)
		r.awaitAnswers(5)
		before.mustServe(calls > goesOn)
		if calls == goesOn {
			before.mustGoOn(r.at[r.random.IntN(2)])
			before.mustServe(true)
		}
		calls++
	})
	before.mustServe(true)
	after.mustServe(false)
	after.mustGoOn(r.at[r.moved%2])
	after.mustServe(true)
}

// shift moves the slot of a key, which must be there, to another primary.
func (r *ring) shift(key string, between func()) {
	r.t.Helper()
	slot := r.cluster.Slot(key)
	from := r.cluster.Owner(slot)
	if n, err := from.Client().Exists(r.t.Context(), key).Result(); n != 1 || err != nil {
		r.t.Fatalf("there is no %s: %d, %v", key, n, err)
	}
	others := slices.DeleteFunc(r.primaries(), func(s *redistest.Server) bool { return s == from })
	r.cluster.MigrateSlot(slot, from, others[r.random.IntN(len(others))], between)
	r.moved++
}

// primaries returns the nodes that report to be one.
func (r *ring) primaries() []*redistest.Server {
	return slices.DeleteFunc(slices.Clone(r.cluster.Nodes), func(s *redistest.Server) bool {
		return !strings.Contains(r.replication(s), "role:master")
	})
}

// count adds the error replies of a node since its start.
func (r *ring) count(node *redistest.Server) {
	r.t.Helper()
	info, err := node.Client().Info(r.t.Context(), "errorstats").Result()
	if err != nil {
		r.t.Fatal(err)
	}
	for line := range strings.Lines(info) { // errorstat_ASK:count=7
		name, count, _ := strings.Cut(strings.TrimSpace(line), ":count=")
		if name, ok := strings.CutPrefix(name, "errorstat_"); ok {
			n, _ := strconv.Atoi(count)
			r.told[name] += n
		}
	}
}

// mustHaveFollowed expects that the nodes redirected requests with these words, and that none
// needed two keys at once: such a command is CROSSSLOT in a cluster, or TRYAGAIN in a slot that
// moves. The test itself causes one CROSSSLOT, to check that it is counted.
func (r *ring) mustHaveFollowed(words ...string) {
	r.t.Helper()
	r.primaries()[0].Client().MGet(r.t.Context(), "a", "b")
	for _, node := range r.cluster.Nodes {
		r.count(node)
	}
	r.t.Logf("%d slots moved; the nodes answered %v", r.moved, r.told)
	for _, word := range words {
		if r.told[word] == 0 {
			r.t.Errorf("no request was answered %s", word)
		}
	}
	if r.told["CROSSSLOT"] != 1 || r.told["TRYAGAIN"] != 0 {
		r.t.Errorf("somebody asked for several keys at once: %v", r.told)
	}
	for _, m := range r.at {
		for _, word := range []string{"CROSSSLOT", "TRYAGAIN"} {
			if output := m.output.String(); strings.Contains(output, word) {
				r.t.Errorf("authz at %s says %s", m.address, word)
			}
		}
	}
}

// mustList expects all acknowledged grants in every list. The grants of a disabled person are in
// the list of the client only.
func (r *ring) mustList() {
	r.t.Helper()
	l := r.journal.read(r.t)
	listed, known := r.listed(), map[string]bool{}
	for c, err := range r.store.Clients(r.t.Context()) {
		if err != nil {
			r.t.Fatal(err)
		}
		known[c.ID] = true
	}
	of := map[string]map[string]bool{}
	for client := range l.clients {
		if !known[client] {
			r.t.Errorf("the client %s is not listed", client)
		}
		of[client] = r.grantsOf(client)
	}
	for code, f := range l.families {
		id, _ := storage.CodeGrant(code)
		if !of[f.client][id] {
			r.t.Errorf("the grant %s is not in the list of its client", id)
		}
		if who := l.people[f.person]; who == nil || !who.disabled && !who.doubt {
			if !listed[id] {
				r.t.Errorf("the grant %s is not in the list of %s", id, f.person)
			}
		}
	}
}

// listed returns the grants of all people, as the command lists them.
func (r *ring) listed() map[string]bool {
	r.t.Helper()
	out, a := r.command("", "grant", "ls", "--json")
	var grants []struct {
		ID string `json:"id"`
	}
	if err := json.Unmarshal([]byte(out), &grants); err != nil {
		r.t.Fatalf("%s: %v", a, err)
	}
	ids := map[string]bool{}
	for _, g := range grants {
		ids[g.ID] = true
	}
	return ids
}

func (r *ring) grantsOf(client string) map[string]bool {
	r.t.Helper()
	ids := map[string]bool{}
	for g, err := range r.store.ClientGrants(r.t.Context(), client) {
		if err != nil {
			r.t.Fatal(err)
		}
		ids[g.ID] = true
	}
	return ids
}

// finish ends the load and checks everything; for the words see mustHaveFollowed.
func (r *ring) finish(words ...string) {
	r.t.Helper()
	r.end()
	r.mustHaveFollowed(words...)
	if !r.t.Failed() {
		r.mustList()
	}
	r.settle()
}

// killPrimary kills the primary with the grant of a family and waits for the promotion of its
// replica. Then it starts it again, as a replica.
func (r *ring) killPrimary() {
	r.t.Helper()
	r.kills++
	stands := [2]*stand{r.stand(r.at[0]), r.stand(r.at[1])}
	slot := r.cluster.Slot(grantKey(r.t, stands[0].family.code))
	victim := r.cluster.Owner(slot)
	elsewhere := r.elsewhere(victim)
	r.awaitReplicas()
	var promoted time.Time
	r.strike(func() {
		r.count(victim)
		attach := func() {}
		if r.kills%3 > 0 {
			attach = r.detach(victim)
		}
		r.pause(300 * time.Millisecond)
		victim.Kill()
		attach()
		eventually(r.t, patience, func() error {
			r.lookDown(stands[0].family)
			r.mustNotNotice(elsewhere)
			if r.cluster.Owner(slot) == victim {
				return fmt.Errorf("nobody has taken the place of %s", victim.Addr)
			}
			return nil
		})
		promoted = time.Now()
	})
	r.recoversAfter(promoted, func() {
		for i, m := range r.at {
			stands[i].mustGoOn(m)
		}
	})
	victim.Restart()
	r.cluster.Settle()
}

// detach cuts the replica of a primary off from writes from now on, and from everything else,
// until attach is called. It is too short to be noticed.
func (r *ring) detach(primary *redistest.Server) (attach func()) {
	r.t.Helper()
	_, port, _ := net.SplitHostPort(primary.Addr)
	i := slices.IndexFunc(r.cluster.Nodes, func(s *redistest.Server) bool {
		return strings.Contains(r.replication(s), "master_port:"+port+"\r\n")
	})
	replica := r.cluster.Nodes[i]
	replica.Pause()
	if err := primary.Client().ClientKillByFilter(r.t.Context(), "type", "replica").Err(); err != nil {
		r.t.Fatal(err)
	}
	return replica.Resume
}

// awaitReplicas waits until replicas have everything. Moving a key is not confirmed by replicas:
// killing its new owner before a replica has the key loses it. A test that moves slots has to
// avoid that.
func (r *ring) awaitReplicas() {
	r.t.Helper()
	had := map[*redistest.Server]int{}
	for _, node := range r.primaries() {
		had[node] = number(r.replication(node), "master_repl_offset:")
	}
	eventually(r.t, patience, func() error {
		for node, all := range had {
			if has := number(r.replication(node), ",offset="); has < all {
				return fmt.Errorf("the replica of %s has %d of %d", node.Addr, has, all)
			}
		}
		return nil
	})
}

// replication returns the INFO of a node about itself and its replica, empty if it is down.
func (r *ring) replication(node *redistest.Server) string {
	return node.Client().Info(r.t.Context(), "replication").Val()
}

// number returns the number after a name in a text, 0 if the name is missing.
func number(text, name string) (n int) {
	_, rest, _ := strings.Cut(text, name)
	_, _ = fmt.Sscanf(rest, "%d", &n)
	return n
}

// elsewhere returns a family that needs nothing of a primary: neither its grant nor its client is
// there.
func (r *ring) elsewhere(victim *redistest.Server) *held {
	r.t.Helper()
	has := func(key string) bool { return r.cluster.Owner(r.cluster.Slot(key)) == victim }
	client, v := "", r.newVisitor(personName)
	for client == "" || has("gatehouse:client:"+client) {
		client = r.served(r.at[0], r.register).Client
	}
	h := &held{client: client}
	for h.code == "" || has(grantKey(r.t, h.code)) {
		h.code = r.served(r.at[0], func(p *process) answer { return r.consent(p, v, client) }).Code
	}
	h.tokens = r.served(r.at[0], func(p *process) answer { return r.redeem(p, opRedeem, h) })
	return h
}

// lookDown asks both processes for a family whose primary is gone. It counts the answers that
// report it as down. The others come after a promotion that the test has not seen yet.
func (r *ring) lookDown(h *held) {
	r.t.Helper()
	for _, m := range r.at {
		switch a := r.introspect(m.process, h.tokens.Access); {
		case a.outcome() == unavailable:
			r.down++
		case a.outcome() != granted || !a.Active:
			r.t.Errorf("while its part of the keys is down: %s", a)
		}
	}
}

// mustNotNotice expects that a family goes on whose part of the keys is not down.
func (r *ring) mustNotNotice(h *held) {
	r.t.Helper()
	for _, m := range r.at {
		if a := r.introspect(m.process, h.tokens.Access); !a.Active {
			r.t.Errorf("while another part of the keys is down: %s", a)
		}
		a := r.refresh(m.process, h, h.tokens.Refresh)
		if a.outcome() != granted {
			r.t.Errorf("while another part of the keys is down: %s", a)
			return
		}
		h.tokens = a
	}
}
