package redis

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	goredis "github.com/redis/go-redis/v9"
)

// ErrEvicts is the error about a server that drops records when its memory is full. A dropped
// grant is a lost revocation.
var ErrEvicts = errors.New("storage/redis: the server evicts records when memory is full: set maxmemory-policy noeviction")

// persistence is what a server reports about how it keeps records. A field is empty if the server
// does not report it.
type persistence struct {
	policy      string // maxmemory-policy
	appendOnly  string // yes or no
	appendFsync string // always, everysec or no
}

// inspect asks each primary how it keeps records. A server that evicts is an error; what may be
// lost in a crash is a warning for the operator, each once.
func (b *backend) inspect(ctx context.Context) (warnings []string, err error) {
	var mu sync.Mutex
	seen := map[string]bool{}
	look := func(ctx context.Context, server *goredis.Client) error {
		k := ask(ctx, server)
		mu.Lock()
		defer mu.Unlock()
		for _, w := range k.warnings() {
			if !seen[w] {
				seen[w] = true
				warnings = append(warnings, w)
			}
		}
		if k.policy != "" && k.policy != "noeviction" {
			return fmt.Errorf("%w (it is %s)", ErrEvicts, k.policy)
		}
		return nil
	}
	err = b.each(ctx, look)
	return warnings, err
}

func (k persistence) warnings() []string {
	switch {
	case k.policy == "" && k.appendOnly == "":
		return []string{"the store does not report how it keeps records: make sure of maxmemory-policy noeviction, appendonly yes and appendfsync always"}
	case k.appendOnly == "no":
		return []string{"the store does not write to disk as it answers (appendonly is off): a restart of Redis may lose revocations and redeemed codes"}
	case k.appendOnly == "yes" && k.appendFsync != "" && k.appendFsync != "always":
		return []string{"the store answers before it has written to disk (appendfsync is " + k.appendFsync + "): a crash may lose the last revocations and redeemed codes; appendfsync always does not"}
	}
	return nil
}

// ask reads the settings with CONFIG GET, and with INFO where that is denied.
func ask(ctx context.Context, server *goredis.Client) persistence {
	k := persistence{
		policy:      setting(ctx, server, "maxmemory-policy"),
		appendOnly:  setting(ctx, server, "appendonly"),
		appendFsync: setting(ctx, server, "appendfsync"),
	}
	if k.policy != "" && k.appendOnly != "" {
		return k
	}
	info, err := server.Info(ctx).Result()
	if err != nil {
		return k
	}
	for line := range strings.Lines(info) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		switch {
		case name == "maxmemory_policy":
			k.policy = value
		case name == "aof_enabled" && value == "1":
			k.appendOnly = "yes"
		case name == "aof_enabled":
			k.appendOnly = "no"
		}
	}
	return k
}

func setting(ctx context.Context, server *goredis.Client, name string) string {
	values, err := server.ConfigGet(ctx, name).Result()
	if err != nil {
		return ""
	}
	return values[name]
}
