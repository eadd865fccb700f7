//go:build e2e

package redis_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"gatehouse.example/storage"
	"gatehouse.example/storage/catalogue/cataloguetest"
	"gatehouse.example/storage/redis"
	"gatehouse.example/storage/redis/redistest"
	"gatehouse.example/storage/storagetest"
)

// The commands that a user of Redis must be allowed: at each server, in another database than 0,
// where there are replicas, and in a cluster.
const (
	everywhere = "ping get set del eval evalsha zadd zrem zrangebylex zrevrangebylex zcard info scan time bitfield"
	inDatabase = everywhere + " select mget"
	withOthers = inDatabase + " wait"
	inCluster  = everywhere + " wait asking command cluster|slots"
)

// gate is the user of these tests, and its place in a URL. It may use the keys of the store and
// those of the suites.
const (
	gateUser = "//gate:p%40%2F%3A%20word@"
	gateName = "gate"
)

// gateRules returns the rules of the user for these commands.
func gateRules(commands string) []string {
	rules := []string{"reset", "on", ">p@/: word", "~gatehouse:*", "~storagetest:*"}
	for command := range strings.FieldsSeq(commands) {
		rules = append(rules, "+"+command)
	}
	return rules
}

// gated returns the configuration of a server with the user.
func gated(commands string) redistest.Config {
	return redistest.Config{Persistent: true, Args: append([]string{"--user", gateName}, gateRules(commands)[1:]...)}
}

func asGate(url string) string { return strings.Replace(url, "//", gateUser, 1) }

// suites runs all suites against one store.
func suites(t *testing.T, url string) {
	openURL := func(t *testing.T) storage.Backend { return open(t, redis.Options{URL: url}) }
	t.Run("Backend", func(t *testing.T) { storagetest.TestBackend(t, openURL) })
	t.Run("Concurrency", func(t *testing.T) { storagetest.TestConcurrency(t, openURL) })
	t.Run("Store", func(t *testing.T) { storagetest.TestStore(t, openURL) })
	t.Run("Catalogue", func(t *testing.T) { cataloguetest.TestCatalogue(t, openURL) })
}

func TestServer(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, gated(inDatabase))
	url := asGate(server.URL()) + "/5"
	suites(t, url)
	wantCommands(t, inDatabase, []*redistest.Server{server}, url, "gatehouse:key")
}

// TestServerPassword: the password of the server itself, without a user name.
func TestServerPassword(t *testing.T) {
	server := redistest.StartServer(t, "--requirepass", "p@/: word")
	wantNoOpen(t, redis.Options{URL: server}, "redis://user:password@host")
	wantNoOpen(t, redis.Options{URL: strings.Replace(server, "//", "//:hunter2@", 1)}, "check the user and the password")
	b := open(t, redis.Options{URL: strings.Replace(server, "//", "//:p%40%2F%3A%20word@", 1)})
	defer b.Close()
	put(t, b, storage.Put{Key: "k", Operation: storage.Version{1}})
}

func TestServerSentinel(t *testing.T) {
	t.Parallel()
	primary := redistest.Start(t, gated(withOthers))
	servers := []*redistest.Server{primary}
	for range 2 {
		c := gated(withOthers)
		c.ReplicaOf = primary
		servers = append(servers, redistest.Start(t, c))
	}
	url := asGate(redistest.StartSentinels(t, "main", primary, 3, 5*time.Second).URL())
	wantNoOpen(t, redis.Options{URL: strings.Replace(url, "/main", "/other", 1)}, "watch the name other")
	suites(t, url+"?db=2")
	wantCommands(t, withOthers, servers, url+"?db=2", "gatehouse:key")
}

func TestServerCluster(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, 3, 1, gated(inCluster))
	url := asGate(cluster.URL())
	suites(t, url)
	const key = "gatehouse:key"
	slot := cluster.Slot(key)
	from := cluster.Owner(slot)
	to := cluster.Nodes[(slices.Index(cluster.Nodes, from)+1)%3]
	var once sync.Once // in a slot that is half moved
	cluster.MigrateSlot(slot, from, to, func() {
		once.Do(func() { wantCommands(t, inCluster, cluster.Nodes, url, key) })
	})
}

// wantCommands checks that the commands are those that the store uses, apart from CONFIG GET, for
// which there is INFO: with all of them no command is refused, with one less one is.
func wantCommands(t *testing.T, commands string, servers []*redistest.Server, url, key string) {
	t.Helper()
	try := func(commands string) (refused []string, err error) {
		t.Helper()
		allow(t, servers, commands)
		err = everyMethod(t, url, key)
		return refusals(t, servers), err
	}
	if refused, err := try(commands); err != nil || !slices.Equal(refused, []string{"config|get"}) {
		t.Errorf("a user with all commands: %v; refused are %q", err, refused)
	}
	for command := range strings.FieldsSeq(commands) {
		without := strings.Join(slices.DeleteFunc(strings.Fields(commands), func(c string) bool { return c == command }), " ")
		if refused, err := try(without); !slices.Contains(refused, command) {
			t.Errorf("%s is not needed: without it %v; refused are %q", command, err, refused)
		}
	}
	allow(t, servers, commands)
}

// allow gives the user these commands, and no others, at servers with no cached scripts and no
// refusals yet.
func allow(t *testing.T, servers []*redistest.Server, commands string) {
	t.Helper()
	for _, s := range servers {
		for _, err := range []error{
			s.Client().ACLSetUser(t.Context(), gateName, gateRules(commands)...).Err(),
			s.Client().ACLLogReset(t.Context()).Err(),
			s.Client().ScriptFlush(t.Context()).Err(),
		} {
			if err != nil {
				t.Fatalf("%s: %v", s.Addr, err)
			}
		}
	}
}

// refusals returns the commands that servers refused to the user.
func refusals(t *testing.T, servers []*redistest.Server) []string {
	t.Helper()
	seen := map[string]bool{}
	for _, s := range servers {
		entries, err := s.Client().ACLLog(t.Context(), 100).Result()
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			if e.Username != gateName || e.Reason != "command" {
				t.Errorf("%s refused %s to %s because of its %s", s.Addr, e.Object, e.Username, e.Reason)
			}
			seen[e.Object] = true
		}
	}
	return slices.Sorted(maps.Keys(seen))
}

// everyMethod opens a store and calls all methods, until one fails. A warning counts as a
// failure.
func everyMethod(t *testing.T, url, key string) error {
	var warned error
	b, err := redis.Open(t.Context(), redis.Options{URL: url, OnWarning: func(w string) { warned = fmt.Errorf("warning: %s", w) }})
	if err != nil {
		return err
	}
	defer b.Close()
	on, err := b.Lineage(t.Context())
	index := "gatehouse:index:{" + key + "}"
	for _, step := range []func() error{
		func() error { return warned },
		func() error { return err },
		func() error { return b.IndexAdd(t.Context(), index, "entry") },
		func() error { _, err := b.IndexPage(t.Context(), index, "", 10); return err },
		func() error { _, err := b.IndexPageBefore(t.Context(), index, "", 10); return err },
		func() error { _, err := b.IndexLen(t.Context(), index); return err },
		func() error { _, _, err := b.Scan(t.Context(), "gatehouse:", "", 10); return err },
		func() error { return b.IndexRemove(t.Context(), index, "entry") },
		func() error { _, err := b.Put(t.Context(), fresh(key, on)); return err },
		func() error { _, err := b.Get(t.Context(), key); return err },
		func() error { _, err := b.GetMany(t.Context(), []string{key, key + " that is not there"}); return err },
		func() error { _, err := b.Count(t.Context(), storage.Counting{Pool: key}); return err },
		func() error { return b.Delete(t.Context(), key) },
	} {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// TestServerForeignValues: the script answers on a real server as it does embedded.
func TestServerForeignValues(t *testing.T) {
	server := redistest.Start(t, redistest.Config{})
	foreignValues(t, open(t, redis.Options{URL: server.URL()}), foreign{
		set:  func(key, value string) error { return server.Client().Set(t.Context(), key, value, 0).Err() },
		push: func(key string) error { return server.Client().LPush(t.Context(), key, "x").Err() },
	})
}
