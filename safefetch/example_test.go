package safefetch_test

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"gatehouse.example/safefetch"
)

// A server fetches a document at an untrusted address, and does not disclose why it failed.
func ExampleFetcher_Get() {
	fetcher, err := safefetch.New(safefetch.Config{Floor: time.Millisecond})
	if err != nil {
		panic(err)
	}
	ctx := safefetch.WithRequester(context.Background(), netip.MustParseAddr("192.0.2.1"))
	_, err = fetcher.Get(ctx, safefetch.Request{
		URL:      "https://169.254.169.254/latest/meta-data/",
		Accept:   []string{"application/json"},
		MaxBytes: 5 << 10,
	})
	fmt.Println(errors.Is(err, safefetch.ErrRefused))
	fmt.Println("shown: ", err)
	fmt.Println("logged:", safefetch.Reason(err))
	// Output:
	// true
	// shown:  safefetch: the address cannot be fetched
	// logged: safefetch: the address cannot be fetched: 169.254.169.254 has the address 169.254.169.254: link local (RFC 3927)
}
