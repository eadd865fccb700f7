package local

import (
	"bytes"
	"context"
	"encoding/gob"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"

	"gatehouse.example/storage"
)

// client is the store of the server that has a file open.
type client struct {
	http *http.Client
}

var _ storage.Backend = (*client)(nil)

// Open returns the store of the server that has the file at path open. The error wraps
// [ErrNoServer] if there is none, or none that answers this user.
func Open(ctx context.Context, path string) (storage.Backend, error) {
	if err := sameOwner(path, folderOf(path)); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNoServer, err)
	}
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", socketOf(path))
	}
	c := &client{&http.Client{Transport: &http.Transport{DialContext: dial, MaxIdleConnsPerHost: 64}}}
	if _, err := c.Lineage(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("%w: %s: %w", ErrNoServer, path, err), c.Close())
	}
	return c, nil
}

// sameOwner returns an error unless the folder of the socket belongs to whom the file belongs:
// anybody else could answer there.
func sameOwner(path, folder string) error {
	file, err := os.Stat(path)
	if err != nil {
		return err
	}
	beside, err := os.Lstat(folder)
	if err != nil {
		return err
	}
	if owner := ownerOf(file); owner < 0 || owner != ownerOf(beside) {
		return fmt.Errorf("%s does not belong to the owner of %s", folder, path)
	}
	return nil
}

// ask sends one request. It is never repeated: the outcome of a write whose answer is lost is
// unknown.
func (c *client) ask(ctx context.Context, q request) (answer, error) {
	if err := ctx.Err(); err != nil {
		return answer{}, err
	}
	var body bytes.Buffer
	if err := gob.NewEncoder(&body).Encode(q); err != nil {
		return answer{}, fmt.Errorf("storage/file/local: %w", err)
	}
	a, err := c.post(ctx, &body)
	switch {
	case err == nil:
		return a, a.err()
	case q.writes():
		return answer{}, fmt.Errorf("%w: storage/file/local: %w", storage.ErrUncertain, err)
	case ctx.Err() != nil:
		return answer{}, ctx.Err()
	}
	return answer{}, fmt.Errorf("%w: storage/file/local: %w", storage.ErrUnavailable, err)
}

func (c *client) post(ctx context.Context, body *bytes.Buffer) (a answer, err error) {
	// The host has no meaning: the connection is to the socket. A body that cannot be read again
	// keeps the transport from sending it twice.
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://store/", io.NopCloser(body))
	if err != nil {
		return answer{}, err
	}
	resp, err := c.http.Do(r)
	if err != nil {
		return answer{}, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(resp.Body, 1<<10))
		return answer{}, fmt.Errorf("the server answered %s: %.200q", resp.Status, text)
	}
	err = gob.NewDecoder(io.LimitReader(resp.Body, maxMessage)).Decode(&a)
	return a, err
}

func (q request) writes() bool {
	switch q.Method {
	case "Put", "Delete", "IndexAdd", "IndexRemove":
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
