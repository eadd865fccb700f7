package main

import (
	"cmp"
	"errors"
	"fmt"
	"math"

	"gatehouse.example/authz"
)

// limitSettings are the limits on requests. They are one value, which can be replaced as a whole.
type limitSettings struct {
	LimitToken         int `default:"600000" placeholder:"N" help:"How many requests to the token and revocation endpoints one address may send in a minute, to each process; 0 for any number (default ${default})."`
	LimitClient        int `default:"600000" placeholder:"N" help:"How many requests to the token endpoint one client may send in a minute from one address, to each process, and four times as many with credentials from everywhere; 0 for any number (default ${default})."`
	LimitIntrospection int `default:"1200000" placeholder:"N" help:"How many requests to the introspection endpoint one address may send in a minute, to each process; 0 for any number (default ${default})."`
	LimitRegistration  int `default:"600000" placeholder:"N" help:"How many requests to the registration endpoints one address may send in a minute, to each process; 0 for any number (default ${default})."`
	LimitDocuments     int `default:"6000000" placeholder:"N" help:"How often one address may read metadata and keys in a minute, from each process; 0 for any number (default ${default})."`
	LimitPages         int `default:"600000" placeholder:"N" help:"How many pages one address may open in a minute, at each process; 0 for any number (default ${default})."`
}

// limits returns the limits as the server takes them.
func (s limitSettings) limits() authz.Limits {
	of := func(n int) int { return cmp.Or(n, -1) } // zero is the default of authz.Config
	return authz.Limits{
		Token: of(s.LimitToken), Client: of(s.LimitClient), Introspection: of(s.LimitIntrospection),
		Registration: of(s.LimitRegistration), Documents: of(s.LimitDocuments), Pages: of(s.LimitPages),
	}
}

// limitMistakes returns an error for each limit that is no number of requests.
func (s limitSettings) limitMistakes() error {
	var errs []error
	for _, of := range []struct {
		name string
		n    int
	}{
		{"token", s.LimitToken}, {"client", s.LimitClient}, {"introspection", s.LimitIntrospection},
		{"registration", s.LimitRegistration}, {"documents", s.LimitDocuments}, {"pages", s.LimitPages},
	} {
		if of.n < 0 || of.n > math.MaxInt32 {
			errs = append(errs, fmt.Errorf("limit-%s %d is not a number of requests up to %d; 0 is any number", of.name, of.n, math.MaxInt32))
		}
	}
	return errors.Join(errs...)
}
