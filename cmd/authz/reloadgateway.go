package main

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/alecthomas/kong"

	"gatehouse.example/audit"
	"gatehouse.example/cmd/authz/internal/metrics"
	"gatehouse.example/gateway"
	"gatehouse.example/middleware"
)

// gatewayRestarts are the flags of gateway whose new values need a restart: those of the listeners
// and of the process, and the keys that sessions and assertions depend on. A file with the keys for
// assertions is read again when it changes.
var gatewayRestarts = []string{
	"listen", "admin-listen", "tls-cert", "tls-key", "drain", "max-connections", "trusted-proxies", "log-format", "verify-only",
	"session-key", "session-key-file", "assertion-key", "assertion-key-file",
	"acme-names", "acme-email", "acme-directory", "acme-roots", "acme-agree-terms", "acme-tls-alpn", "acme-http-listen", "acme-folder",
	"audit", "audit-required", "audit-key", "audit-key-file",
}

// liveGate is the gate in force. A request stays with the one with which it began, and so does a
// stream.
type liveGate struct {
	current atomic.Pointer[gate]

	mu      sync.Mutex
	stopped bool
}

// ServeHTTP implements http.Handler.
func (l *liveGate) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	(*l.current.Load()).ServeHTTP(w, r)
}

// Stop makes the gate in force, and each later one, report that it stops.
func (l *liveGate) Stop() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.stopped = true
	(*l.current.Load()).Stop()
}

// swap puts another gate in force.
func (l *liveGate) swap(next gate) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.stopped {
		next.Stop()
	}
	l.current.Store(&next)
}

// guarding is what a running gateway was told last. It is used by one reload at a time.
type guarding struct {
	program  *program
	args     []string // of the command line
	flags    []*kong.Flag
	plan     *gatewayPlan
	warnings []string
	counts   *metrics.Gateways
	record   func(audit.Event) // nil without a trail
	site     *site
	headers  int // what the listener takes
	gate     liveGate
	asked    map[application]*middleware.Budget
	proofs   usedProofs
	files    atomic.Pointer[[]*watched] // of the plan in force
}

// put builds what a plan describes, and puts it in force.
func (v *guarding) put(plan *gatewayPlan) error {
	plan.count(v.counts)
	plan.trace(v.site.traces)
	plan.record(v.record)
	plan.countTogether(v.asked)
	plan.remember(v.proofs)
	next, err := plan.build(v.site.log)
	if err != nil {
		return err
	}
	files := append([]*watched{&plan.watched}, plan.own...)
	v.files.Store(&files)
	v.gate.swap(next)
	v.proofs.inForce(plan, time.Now())
	v.plan = plan
	return nil
}

// watch loads files that have changed until ctx ends.
func (v *guarding) watch(ctx context.Context) error {
	tick := time.NewTicker(rereadEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			for _, w := range *v.files.Load() {
				w.reload(v.site.log)
			}
		}
	}
}

// reload reads all settings, and lets the gateway take those that it can. A resource whose settings
// are the same goes on as it is.
func (v *guarding) reload(ctx context.Context) reloaded {
	out := reloaded{Done: true}
	if _, _, _, err := v.read(ctx, nil); err != nil { // as a restart would read them
		return refused(err)
	}
	plan, warnings, flags, err := v.read(ctx, func(flags []*kong.Flag) { out.Restart = v.settle(flags) })
	if err != nil {
		if len(out.Restart) > 0 {
			err = fmt.Errorf("with the settings that need a restart as they were: %w", err)
		}
		return refused(err)
	}
	out.Changed = v.changes(flags, plan)
	plan.succeed(v.plan)
	if plan.headers() > v.headers {
		out.Restart = append(out.Restart, change{"max-token", "until then longer tokens may not fit into the headers of a request"})
	}
	if err := v.put(plan); err != nil {
		return refused(err)
	}
	out.Warnings = slices.DeleteFunc(slices.Clone(warnings), func(w string) bool { return slices.Contains(v.warnings, w) })
	v.flags, v.warnings = flags, warnings
	return out
}

// read reads all settings as the start does. Settle is that of [program.loadGateway]; with it, the keys
// that are in use stay.
func (v *guarding) read(ctx context.Context, settle func([]*kong.Flag)) (*gatewayPlan, []string, []*kong.Flag, error) {
	k, err := v.program.parse(ctx, v.args, func(int) {})
	if err != nil {
		return nil, nil, nil, err
	}
	verb, ok := k.Selected().Target.Addr().Interface().(*gatewayVerb)
	if !ok {
		return nil, nil, nil, errors.New("this is no gateway")
	}
	if settle != nil {
		verb.before = &v.plan.keys
	}
	plan, warnings, err := v.program.loadGateway(k, &verb.gatewaySettings, settle)
	return plan, warnings, k.Selected().Flags, err
}

// settle gives flags that need a restart their values from before, and returns those that differ.
func (v *guarding) settle(flags []*kong.Flag) (restart []change) {
	restart = []change{}
	for i, flag := range flags {
		if !slices.Contains(gatewayRestarts, flag.Name) {
			continue
		}
		before := v.flags[i]
		if !v.watches(flag.Name) && !reflect.DeepEqual(before.Target.Interface(), flag.Target.Interface()) {
			restart = append(restart, change{Key: flag.Name})
		}
		flag.Target.Set(before.Target)
	}
	return restart
}

// watches reports whether the value of a flag is from a file that is read again when it changes.
func (v *guarding) watches(name string) bool {
	return slices.ContainsFunc(v.plan.watched.files, func(f *watchedFiles) bool { return f.setting == name+"-file" })
}

// changes returns the settings with new values that the gateway takes.
func (v *guarding) changes(flags []*kong.Flag, plan *gatewayPlan) []change {
	out := []change{}
	for i, flag := range flags {
		if !slices.Contains(gatewayRestarts, flag.Name) && flag.Name != "config" && !isTwin(flags, flag.Name) &&
			!reflect.DeepEqual(v.flags[i].Target.Interface(), flag.Target.Interface()) {
			out = append(out, change{Key: flag.Name})
		}
	}
	what := v.plan.elements().with(plan.elements())
	switch {
	case plan.resources != nil || v.plan.resources != nil:
		if what != "" {
			out = append(out, change{resourceList, what})
		}
	case what != "" && len(out) == 0:
		out = append(out, change{"scopes", "or another file that is named"})
	}
	return out
}

// judged is what decides whether a gateway can go on under a new plan.
type judged struct {
	guardedResource
	policy    any
	supported [2][]string
	roots     [sha256.Size]byte
}

func (plan *gatewayPlan) judged(i int) judged {
	c, one := plan.configs[i], plan.described[i]
	one.before, one.line, one.good, one.rules = nil, 0, true, scopeRules{}
	return judged{one, c.Guard.Policy, [2][]string{c.Guard.Scopes, c.Guard.ChallengeScopes}, plan.own[i].roots}
}

func (plan *gatewayPlan) elements() elements {
	out := elements{values: map[string]any{}}
	for i := range plan.configs {
		name := plan.configs[i].Guard.Resource
		out.names, out.values[name] = append(out.names, name), plan.judged(i)
	}
	return out
}

// succeed lets the gateways of the plan before go on where the settings are the same, and hands over
// what the others know.
func (plan *gatewayPlan) succeed(before *gatewayPlan) {
	plan.kept = map[int]*gateway.Gateway{}
	for i := range plan.configs {
		c := &plan.configs[i]
		j := slices.IndexFunc(before.configs, func(other gateway.Config) bool { return other.Guard.Resource == c.Guard.Resource })
		switch {
		case j < 0:
		case reflect.DeepEqual(plan.judged(i), before.judged(j)):
			plan.kept[i], plan.own[i] = before.gates[j], before.own[j]
		default:
			c.Before = before.gates[j]
		}
	}
	if len(before.watched.files) > 0 {
		plan.watched = before.watched
	}
}
