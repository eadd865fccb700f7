package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"
)

// healthVerb asks a server on this machine whether it answers: containers without a shell
// need something to ask.
type healthVerb struct {
	URL string `arg:"" optional:"" default:"http://127.0.0.1:8080/healthz" help:"Where to ask: /healthz of the public listener, or /readyz of the admin listener (default ${default})."`
}

// healthTime is how long an answer may take.
const healthTime = 2 * time.Second

// Run fails unless the answer is 200.
func (v *healthVerb) Run(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, healthTime)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, v.URL, nil)
	if err != nil {
		return usageError{fmt.Errorf("%s is not a URL", v.URL)}
	}
	resp, err := (&http.Transport{}).RoundTrip(req) // no proxy, no redirect
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("%s does not answer within %s", v.URL, healthTime)
	case err != nil:
		return fmt.Errorf("%s does not answer: %w", v.URL, err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answers %s", v.URL, resp.Status)
	}
	return nil
}
