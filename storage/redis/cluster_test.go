package redis

import (
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// says returns the answer of a primary that lists these primaries, each with replicas.
func says(primaries map[string][]string) ringAnswer {
	a := ringAnswer{primaries: map[string]map[string]bool{}}
	for primary, replicas := range primaries {
		a.primaries[primary] = map[string]bool{}
		for _, r := range replicas {
			a.primaries[primary][r] = true
		}
	}
	return a
}

// TestClusterMajority: a server is a primary if more than half of the primaries list it as one. A
// replica has no vote, and neither has a server that does not answer; both sides of a division
// count with the number of primaries that they list.
func TestClusterMajority(t *testing.T) {
	t.Parallel()
	before := says(map[string][]string{"a": {"x"}, "b": nil, "c": nil})
	after := says(map[string][]string{"x": nil, "b": nil, "c": nil})
	for _, c := range []struct {
		name    string
		answers map[string]ringAnswer
		want    []string
	}{
		{"all agree", map[string]ringAnswer{"a": before, "b": before, "c": before}, []string{"a", "b", "c"}},
		{"one is silent", map[string]ringAnswer{"a": {}, "b": before, "c": before}, []string{"a", "b", "c"}},
		{"only one is heard", map[string]ringAnswer{"a": before, "b": {}, "c": {}}, nil},
		{"one is heard with its replica", map[string]ringAnswer{"a": before, "x": before}, nil},
		{"the replica took over", map[string]ringAnswer{"a": before, "b": after, "c": after}, []string{"b", "c", "x"}},
		{"one has not heard of it", map[string]ringAnswer{"x": after, "b": before, "c": after}, []string{"b", "c", "x"}},
		{"half of four", map[string]ringAnswer{"a": says(map[string][]string{"a": nil, "b": nil, "c": nil, "d": nil}), "b": says(map[string][]string{"a": nil, "b": nil, "c": nil, "d": nil})}, nil},
		{"one alone is all", map[string]ringAnswer{"a": says(map[string][]string{"a": nil})}, []string{"a"}},
		{"nobody", map[string]ringAnswer{}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := slices.Sorted(maps.Keys(majority(c.answers))); !slices.Equal(got, c.want) {
				t.Errorf("the primaries are %v, want %v", got, c.want)
			}
		})
	}
}

// TestClusterConfirmations: all replicas that any primary lists as up have to confirm a write,
// also one that its own primary does not list.
func TestClusterConfirmations(t *testing.T) {
	t.Parallel()
	a := says(map[string][]string{"a": {"x"}, "b": nil})
	a.info = "role:master\r\nslave0:ip=10.0.0.1,port=1,state=online,offset=7,lag=0\r\nslave1:ip=10.0.0.2,port=1,state=wait_bgsave,offset=0,lag=0\r\n"
	b := says(map[string][]string{"a": {"x", "y"}, "b": nil})
	replica := says(map[string][]string{"a": {"x", "y", "z"}, "b": nil})
	for _, c := range []struct {
		name    string
		answers map[string]ringAnswer
		want    replicas
	}{
		{"one", map[string]ringAnswer{"a": a}, replicas{"a": 1, "b": 0}},
		{"a replica has no say", map[string]ringAnswer{"a": a, "x": replica}, replicas{"a": 1, "b": 0}},
		{"who does not tell is taken at the word of others", map[string]ringAnswer{"b": b}, replicas{"a": 2, "b": 0}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := (&ring{}).confirmations(t.Context(), map[string]bool{"a": true, "b": true}, c.answers); !maps.Equal(got, c.want) {
				t.Errorf("%v have to confirm, want %v", got, c.want)
			}
		})
	}
}

// TestNodeAddr: the addresses are those at which the client dials.
func TestNodeAddr(t *testing.T) {
	t.Parallel()
	for _, c := range [][3]string{
		{"10.0.0.1:6379", "10.0.0.2:6379", "10.0.0.1:6379"},
		{"127.0.0.1:6380", "10.0.0.2:6379", "10.0.0.2:6380"},
		{"127.0.0.1:6380", "localhost:6379", "127.0.0.1:6380"},
		{"127.0.0.1:6380", "127.0.0.1:6379", "127.0.0.1:6380"},
		{"redis.example.com:6379", "10.0.0.2:6379", "redis.example.com:6379"},
		{"10.0.0.1:0", "10.0.0.2:6390", "10.0.0.1:6390"},
	} {
		if got := nodeAddr(c[0], c[1]); got != c[2] {
			t.Errorf("%s, told by %s, is %s; want %s", c[0], c[1], got, c[2])
		}
	}
}

// TestAnswersAboutKeysAreChecked: each command that the package sends is about keys, and then a
// cluster's answers to it are checked, or about servers. It reads the source, so that a new command
// is in one of the lists.
func TestAnswersAboutKeysAreChecked(t *testing.T) {
	aboutServers := []string{"asking", "cluster", "config", "info", "ping", "sentinel", "wait"}
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	sent := map[string]bool{}
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		source, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, match := range regexp.MustCompile(`goredis\.New\w*Cmd\(ctx, "(\w+)"`).FindAllSubmatch(source, -1) {
			sent[string(match[1])] = true
		}
	}
	for command := range sent {
		if slices.Contains(aboutKeys, command) == slices.Contains(aboutServers, command) {
			t.Errorf("%s is in none of the lists, or in both", command)
		}
	}
	if !sent["zrevrangebylex"] || !sent["get"] || !sent["info"] {
		t.Errorf("not all commands were found: %v", sent)
	}
}
