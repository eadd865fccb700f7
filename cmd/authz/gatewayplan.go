package main

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strings"

	"gatehouse.example/audit"
	"gatehouse.example/cmd/authz/internal/metrics"
	"gatehouse.example/cmd/authz/internal/settings"
	"gatehouse.example/gateway"
)

// resourceList is the key of the list with several resources.
const resourceList = "resources"

// gatewayPlan is what a gateway guards.
type gatewayPlan struct {
	configs   []gateway.Config  // at least one
	resources []guardedResource // of the list, in the order of configs; nil without a list
	described []guardedResource // the settings of each, in the order of configs
	keys      gatewayKeys
	watched   watched    // the files of keys
	own       []*watched // the other files, in the order of configs

	kept  map[int]*gateway.Gateway // those of the plan before that go on
	gates []*gateway.Gateway       // those that were built last
}

// gate is a gateway, or several of them.
type gate interface {
	http.Handler
	Stop()
}

// build returns the gateway.
func (plan *gatewayPlan) build(log *slog.Logger) (gate, error) {
	var configs []gateway.Config
	for i := range plan.configs {
		if plan.kept[i] == nil {
			configs = append(configs, plan.configs[i])
		}
	}
	if plan.resources != nil {
		var err error
		if configs, err = shareIssuers(configs, log); err != nil {
			return nil, err
		}
	}
	plan.gates = nil
	for i := range plan.configs {
		g := plan.kept[i]
		if g == nil {
			config := configs[0]
			config.Guard.Logger = log
			var err error
			if g, err = gateway.New(config); err != nil {
				return nil, err
			}
			configs = configs[1:]
		}
		plan.gates = append(plan.gates, g)
	}
	if plan.resources == nil {
		return plan.gates[0], nil
	}
	return gateway.NewRouter(plan.gates...)
}

// record makes the guards record what they decide, unless record is nil.
func (plan *gatewayPlan) record(record func(audit.Event)) {
	for i := range plan.configs {
		plan.configs[i].Guard.Audit = record
	}
}

// count counts what the gateways of the plan do, unless all is nil.
func (plan *gatewayPlan) count(all *metrics.Gateways) {
	for i := range plan.configs {
		countGateway(all, &plan.configs[i])
	}
}

// headers returns the greatest size of the headers of a request, which leaves 24 KiB beside the
// longest token; 0 for the default, which does so for tokens of the default size.
func (plan *gatewayPlan) headers() int {
	longest := 0
	for i := range plan.configs {
		longest = max(longest, plan.configs[i].Guard.MaxToken)
	}
	if longest <= defaultMaxToken {
		return 0
	}
	return longest + 24<<10
}

// The default and the maximum of max-token.
const (
	defaultMaxToken  = 8 << 10
	greatestMaxToken = 64 << 10
)

func maxTokenMistake(size int) error {
	if size <= 0 || size > greatestMaxToken {
		return fmt.Errorf("max-token %d is not a size of tokens: it must be 1 to %d", size, greatestMaxToken)
	}
	return nil
}

// plan returns what the gateway guards, warnings, and every mistake: the resource of the settings,
// or those of the list in the file, which may be nil.
func (s *gatewaySettings) plan(d *settings.Document, random io.Reader) (*gatewayPlan, []string, error) {
	plan := &gatewayPlan{}
	if d != nil {
		if list, ok := d.Values[resourceList]; ok {
			doubts, err := s.planSeveral(plan, d, list, random)
			return plan, doubts, errors.Join(err, s.onlyShared(), s.sharedMistakes())
		}
	}
	var err1 error
	plan.keys, err1 = s.keys(random, s.Identity == string(gateway.IdentityAssertion), s.DPoPNonce, &plan.watched)
	plan.own, plan.described = []*watched{{}}, []guardedResource{{gatewaySettings: *s}}
	config, err := s.gateway(plan.keys, plan.own[0])
	plan.configs = []gateway.Config{config}
	if err = errors.Join(s.mistakes(), err1, err); err == nil {
		_, err = plan.build(slog.New(slog.DiscardHandler)) // before the listeners open
	}
	return plan, s.doubts(), err
}

// onlyShared returns an error for each setting that belongs to one of several resources.
func (s *gatewaySettings) onlyShared() error {
	var errs []error
	belong := func(name string, set bool) {
		if set {
			errs = append(errs, fmt.Errorf("%s is set, and the file lists resources: set it for each of them there", name))
		}
	}
	belong("resource", s.Resource != "")
	belong("resource-name", s.ResourceName != "")
	belong("upstream", s.Upstream != "")
	belong("scopes", s.Scopes != "")
	belong("introspection-client-id", s.IntrospectionClientID != "")
	belong("introspection-secret", s.IntrospectionSecret != "")
	if len(s.Issuer) > 0 {
		errs = append(errs, errors.New("issuer is set, and the file lists resources: set issuers for each of them there"))
	}
	for _, name := range s.upstreamSettings.set() {
		belong(name, true)
	}
	return errors.Join(errs...)
}

// planSeveral adds the resources of the list to a plan, and returns warnings and mistakes.
func (s *gatewaySettings) planSeveral(plan *gatewayPlan, d *settings.Document, list settings.Field, random io.Reader) ([]string, error) {
	plan.resources = s.resourcesIn(d, list)
	asserts := slices.ContainsFunc(plan.resources, func(one guardedResource) bool { return one.Identity == string(gateway.IdentityAssertion) })
	var bound []*boundSettings
	for i := range plan.resources {
		bound = append(bound, &plan.resources[i].boundSettings)
	}
	plan.described = plan.resources
	keys, err := s.keys(random, asserts, anyNonces(bound), &plan.watched)
	plan.keys = keys
	doubts := s.sharedDoubts(bound...)
	if s.AssertionKey != "" && !asserts {
		doubts = append(doubts, "assertion-key has no effect without identity assertion")
	}
	for _, one := range plan.resources {
		own := &watched{}
		config, err := one.config(keys, own)
		plan.own = append(plan.own, own)
		if err == nil && one.good && s.sharedMistakes() == nil {
			_, err = gateway.New(config)
		}
		one.fail(d, err)
		plan.configs = append(plan.configs, config)
		for _, sentence := range one.doubts() {
			doubts = append(doubts, "resource "+one.Resource+": "+sentence)
		}
	}
	if err := errors.Join(err, d.Mistakes()); err != nil {
		return doubts, err
	}
	if s.sharedMistakes() == nil {
		_, err = plan.build(slog.New(slog.DiscardHandler))
	}
	return doubts, err
}

// resourcesIn reads the list.
func (s *gatewaySettings) resourcesIn(d *settings.Document, list settings.Field) []guardedResource {
	out, before := []guardedResource{}, d.Failures()
	for _, element := range d.Elements(list, resourceList) {
		out = append(out, s.resourceIn(d, element))
	}
	if len(out) == 0 && d.Failures() == before {
		d.Fail(list.Line, "resources has no value: list at least one")
	}
	return out
}

// fail records each mistake of a resource.
func (r *guardedResource) fail(d *settings.Document, err error) {
	if err == nil {
		return
	}
	for text := range strings.SplitSeq(err.Error(), "\n") {
		for _, prefix := range []string{"gateway: ", "middleware: ", "config: "} {
			text = strings.TrimPrefix(text, prefix)
		}
		d.Fail(r.line, "resource %s: %s", r.Resource, text)
	}
}
