//go:build e2e

package redis

import (
	"errors"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"gatehouse.example/storage/redis/internal/failover"
	"gatehouse.example/storage/redis/redistest"
)

// TestRefillCommands: a user of Redis with the commands that docs/operations.md names can make a
// server follow another one. With one of them less nothing changes.
func TestRefillCommands(t *testing.T) {
	primary := redistest.Start(t, redistest.Config{})
	source := redistest.Start(t, redistest.Config{})
	mark := failover.Mark{Epoch: 3, Lineage: "one", Primary: primary.Addr}
	if err := primary.Client().Set(t.Context(), termKey, mark.String(), 0).Err(); err != nil {
		t.Fatal(err)
	}
	client := goredis.NewClient(&goredis.Options{
		Addr: primary.Addr, Username: "gate", Password: "word", Protocol: 2, DisableIdentity: true, MaxRetries: -1, MaintNotificationsConfig: noMaintenance(),
	})
	defer client.Close()
	try := func(mark failover.Mark, commands []string) (role string, err error) {
		t.Helper()
		rules := []string{"reset", "on", ">word", "~gatehouse:*"}
		for _, command := range commands {
			rules = append(rules, "+"+command)
		}
		if err := primary.Client().ACLSetUser(t.Context(), "gate", rules...).Err(); err != nil {
			t.Fatal(err)
		}
		err = follow(t.Context(), client, mark, source.Addr)
		info, infoErr := primary.Client().Info(t.Context(), "replication").Result()
		if infoErr != nil {
			t.Fatal(infoErr)
		}
		return infoField(info, "role"), err
	}
	needed := []string{"get", "watch", "multi", "exec", "replicaof"}
	for _, command := range needed {
		less := slices.DeleteFunc(slices.Clone(needed), func(c string) bool { return c == command })
		if role, err := try(mark, less); role != "master" || err == nil || !strings.Contains(err.Error(), "NOPERM") {
			t.Errorf("without %s the server is a %s, error %v", command, role, err)
		}
	}
	if role, err := try(failover.Mark{Epoch: 4}, needed); role != "master" || err == nil {
		t.Errorf("with another mark the server is a %s, error %v", role, err)
	}
	if role, err := try(mark, needed); role != "slave" || err != nil {
		t.Errorf("with all commands the server is a %s, error %v", role, err)
	}
}

// TestRelease: a server that was told to follow another one keeps what it has until it is filled,
// and is a primary again when it is released. One that has been filled is not released.
func TestRelease(t *testing.T) {
	for _, filled := range []bool{false, true} {
		server := redistest.Start(t, redistest.Config{})
		other := redistest.Start(t, redistest.Config{})
		mark := failover.Mark{Epoch: 3, Lineage: "one", Primary: server.Addr}
		host, port, _ := net.SplitHostPort(other.Addr)
		if !filled {
			other.Kill()
		}
		for _, err := range []error{
			server.Client().Set(t.Context(), termKey, mark.String(), 0).Err(),
			server.Client().Do(t.Context(), "replicaof", host, port).Err(),
		} {
			if err != nil {
				t.Fatal(err)
			}
		}
		for filled && server.Client().Exists(t.Context(), termKey).Val() > 0 && t.Context().Err() == nil {
			time.Sleep(10 * time.Millisecond)
		}
		err := follow(t.Context(), server.Client(), mark, noOne)
		role := infoField(server.Client().Info(t.Context(), "replication").Val(), "role")
		if filled && (!errors.Is(err, errMarked) || role != "slave") {
			t.Errorf("one that was filled: %v, it is a %s", err, role)
		}
		if !filled && (err != nil || role != "master" || server.Client().Get(t.Context(), termKey).Val() != mark.String()) {
			t.Errorf("one that was not filled: %v, it is a %s", err, role)
		}
	}
}
