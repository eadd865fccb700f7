package local

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"gatehouse.example/storage"
)

// What a client does with connections. It gives one up before the server does.
const (
	clientConnections = 8
	clientIdleTime    = 30 * time.Second
	// openTime is how long the first answer may take: nothing needs the disk for it.
	openTime = 5 * time.Second
)

// client is the store of the server that has a file open.
type client struct {
	http *http.Client
}

var _ storage.Backend = (*client)(nil)

// Open returns the store of the server that has the file at path open. The error wraps
// [ErrNoServer] if nothing listens there. Any other error says why the one who listens cannot be
// used: it does not answer this user, speaks another version of the protocol, is not the owner of
// the file, or hangs.
func Open(ctx context.Context, path string) (storage.Backend, error) {
	err := sameOwner(path)
	if err == nil {
		var c *client
		if c, err = connect(ctx, path); err == nil {
			return c, nil
		}
	}
	if nobody(err) {
		err = fmt.Errorf("%w: %s: %w", ErrNoServer, path, err)
	}
	return nil, err
}

// connect returns a client of a server that answered.
func connect(ctx context.Context, path string) (*client, error) {
	c := &client{&http.Client{Transport: &http.Transport{
		DialContext:     func(ctx context.Context, _, _ string) (net.Conn, error) { return dial(ctx, path) },
		MaxConnsPerHost: clientConnections, MaxIdleConnsPerHost: clientConnections, IdleConnTimeout: clientIdleTime,
	}}}
	first, cancel := context.WithTimeoutCause(ctx, openTime, fmt.Errorf("no answer for %s", openTime))
	defer cancel()
	_, err := c.Lineage(first)
	switch {
	case err == nil:
		return c, nil
	case errors.Is(err, context.DeadlineExceeded):
		err = context.Cause(first)
	case errors.As(err, new(cut)) && !errors.As(err, new(unreached)) && ctx.Err() == nil:
		err = fmt.Errorf("the server hung up, as it does unless its own user or root asks: %w", err)
	}
	_ = c.Close() // it only gives up connections
	return nil, fmt.Errorf("storage/file/local: the server of %s: %w", path, err)
}

// cut is the error of a request to which no answer began.
type cut struct{ error }

func (c cut) Unwrap() error { return c.error }

// refused is the error of a request that the server did not begin.
type refused struct{ status, text string }

func (r refused) Error() string { return "it answered " + r.status + ": " + r.text }

// ask sends one request. It is never repeated: the outcome of a write whose answer is lost is
// unknown. What was not sent, or was refused, was not written.
func (c *client) ask(ctx context.Context, q request) (answer, error) {
	if err := ctx.Err(); err != nil {
		return answer{}, err
	}
	body, err := pack(q, maxRequest)
	if err != nil {
		return answer{}, fmt.Errorf("storage/file/local: %w", err)
	}
	a, err := c.post(ctx, body)
	switch {
	case err == nil:
		return a, a.err()
	case errors.As(err, new(refused)):
		return answer{}, fmt.Errorf("storage/file/local: %w", err)
	case q.writes() && !errors.As(err, new(unreached)):
		return answer{}, fmt.Errorf("%w: storage/file/local: %w", storage.ErrUncertain, err)
	case ctx.Err() != nil:
		return answer{}, ctx.Err()
	}
	return answer{}, fmt.Errorf("%w: storage/file/local: %w", storage.ErrUnavailable, err)
}

// post sends a request and returns the answer, or the error [refused] or [unreached] if it was not
// begun.
func (c *client) post(ctx context.Context, body []byte) (a answer, err error) {
	// The host has no meaning: the connection is to the socket. A body that cannot be read again
	// keeps the transport from sending it twice.
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://store"+operationPath, io.NopCloser(bytes.NewReader(body)))
	if err != nil {
		return answer{}, err
	}
	r.ContentLength = int64(len(body))
	resp, err := c.http.Do(r)
	if sent := (*url.Error)(nil); errors.As(err, &sent) {
		err = sent.Err // the URL means nothing to people
	}
	if err != nil {
		return answer{}, cut{err}
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	switch said := strings.TrimSpace(fmt.Sprintf("%.200s", data)); {
	case resp.StatusCode/100 == 4 || resp.StatusCode == http.StatusNotImplemented:
		return answer{}, refused{resp.Status, said}
	case err != nil:
		return answer{}, err
	case resp.StatusCode != http.StatusOK:
		return answer{}, fmt.Errorf("the server answered %s: %s", resp.Status, said)
	}
	return a, unpack(data, &a)
}

func (q request) writes() bool {
	switch q.Method {
	case "Put", "Delete", "IndexAdd", "IndexRemove", "Count":
		return true
	}
	return false
}

// Get implements [storage.Backend].
func (c *client) Get(ctx context.Context, key string) (storage.Item, error) {
	a, err := c.ask(ctx, request{Method: "Get", Key: key})
	return a.item(err)
}

// item returns the only item of an answer, which the error may come with.
func (a answer) item(err error) (storage.Item, error) {
	if len(a.Items) == 1 {
		return a.Items[0], err
	}
	return storage.Item{}, err
}

// GetMany implements [storage.Backend].
func (c *client) GetMany(ctx context.Context, keys []string) ([]storage.Item, error) {
	a, err := c.ask(ctx, request{Method: "GetMany", Keys: keys})
	if err == nil && len(a.Items) != len(keys) {
		return nil, fmt.Errorf("%w: storage/file/local: %d items for %d keys", storage.ErrUnavailable, len(a.Items), len(keys))
	}
	return a.Items, err
}

// Put implements [storage.Backend].
func (c *client) Put(ctx context.Context, put storage.Put) (storage.Item, error) {
	a, err := c.ask(ctx, request{
		Method: "Put", Key: put.Key, Data: put.Data, Any: put.If.Any(), Expected: put.If.Version(), Operation: put.Operation, TTL: put.TTL,
		Listed: put.Listed, On: put.On, Confirmation: put.Confirmation, Forgettable: put.Forgettable,
	})
	return a.item(err)
}

// Lineage implements [storage.Backend].
func (c *client) Lineage(ctx context.Context) (storage.Lineage, error) {
	a, err := c.ask(ctx, request{Method: "Lineage"})
	return a.Lineage, err
}

// Delete implements [storage.Backend].
func (c *client) Delete(ctx context.Context, key string) error {
	_, err := c.ask(ctx, request{Method: "Delete", Key: key})
	return err
}

// IndexAdd implements [storage.Backend].
func (c *client) IndexAdd(ctx context.Context, index, entry string) error {
	_, err := c.ask(ctx, request{Method: "IndexAdd", Index: index, Entry: entry})
	return err
}

// IndexRemove implements [storage.Backend].
func (c *client) IndexRemove(ctx context.Context, index, entry string) error {
	_, err := c.ask(ctx, request{Method: "IndexRemove", Index: index, Entry: entry})
	return err
}

// IndexPage implements [storage.Backend].
func (c *client) IndexPage(ctx context.Context, index, after string, limit int) ([]string, error) {
	a, err := c.ask(ctx, request{Method: "IndexPage", Index: index, After: after, Limit: limit})
	return a.Names, err
}

// IndexPageBefore implements [storage.Backend].
func (c *client) IndexPageBefore(ctx context.Context, index, before string, limit int) ([]string, error) {
	a, err := c.ask(ctx, request{Method: "IndexPageBefore", Index: index, After: before, Limit: limit})
	return a.Names, err
}

// IndexLen implements [storage.Backend].
func (c *client) IndexLen(ctx context.Context, index string) (int, error) {
	a, err := c.ask(ctx, request{Method: "IndexLen", Index: index})
	return a.Number, err
}

// Count implements [storage.Backend].
func (c *client) Count(ctx context.Context, counting storage.Counting) (storage.Counted, error) {
	a, err := c.ask(ctx, request{Method: "Count", Pool: counting.Pool, Counts: counting.Counts})
	return a.Counted, err
}

// Room implements [storage.Backend]. It is unknown here; the server refuses what has no room.
func (c *client) Room() storage.Room { return storage.RoomEnough }

// Scan implements [storage.Backend].
func (c *client) Scan(ctx context.Context, prefix, cursor string, limit int) (keys []string, next string, err error) {
	a, err := c.ask(ctx, request{Method: "Scan", Prefix: prefix, After: cursor, Limit: limit})
	return a.Names, a.Next, err
}

// Close implements [storage.Backend].
func (c *client) Close() error {
	c.http.CloseIdleConnections()
	return nil
}
