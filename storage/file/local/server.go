package local

import (
	"bytes"
	"context"
	"encoding/gob"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"
	"sync"
	"syscall"
	"time"

	"gatehouse.example/storage"
)

// Server answers the programs that open a file's store while a process has the file open.
type Server struct {
	http     *http.Server
	finished sync.WaitGroup
}

// Serve begins to listen beside the file at path, which this process has open as backend. It
// replaces a socket that a process before has left: who has the file open is the only server.
// The error says why programs on this machine cannot reach the server.
func Serve(path string, backend storage.Backend) (*Server, error) {
	return serve(path, handler{backend, stallTime})
}

func serve(path string, h handler) (*Server, error) {
	listener, err := listen(path)
	if err != nil {
		return nil, fmt.Errorf("storage/file/local: %w", err)
	}
	s := &Server{http: &http.Server{Handler: h, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: time.Minute}}
	s.finished.Go(func() { _ = s.http.Serve(known{listener}) })
	return s, nil
}

// Close stops listening and ends the operations under way.
func (s *Server) Close() error {
	err := s.http.Close()
	s.finished.Wait()
	return err
}

func listen(path string) (net.Listener, error) {
	folder := folderOf(path)
	if err := os.Mkdir(folder, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	info, err := os.Lstat(folder)
	switch {
	case err != nil:
		return nil, err
	case !info.IsDir():
		return nil, fmt.Errorf("%s is not a folder: remove it", folder)
	case ownerOf(info) != os.Geteuid():
		return nil, fmt.Errorf("%s belongs to another user: remove it", folder)
	case info.Mode().Perm()&0o077 != 0:
		return nil, fmt.Errorf("%s has the permissions %o, so others may enter it: run chmod 700 %s", folder, info.Mode().Perm(), folder)
	}
	if err := os.Remove(socketOf(path)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	return (&net.ListenConfig{}).Listen(context.Background(), "unix", socketOf(path))
}

// ownerOf returns the user to whom a file belongs, -1 if that is not known.
func ownerOf(info fs.FileInfo) int {
	if stat, ok := info.Sys().(*syscall.Stat_t); ok {
		return int(stat.Uid)
	}
	return -1
}

// known accepts the connections of this process's user and of root.
type known struct{ net.Listener }

func (l known) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if user, err := userOf(conn); err == nil && (user == 0 || user == os.Geteuid()) {
			return conn, nil
		}
		_ = conn.Close()
	}
}

// handler carries out operations.
type handler struct {
	backend storage.Backend
	stall   time.Duration // how long a client may take no bytes of a snapshot
}

func (h handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == snapshotPath {
		h.snapshot(w, r)
		return
	}
	var q request
	if err := gob.NewDecoder(http.MaxBytesReader(w, r.Body, maxMessage)).Decode(&q); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	run, ok := operations[q.Method]
	if !ok {
		http.Error(w, "there is no operation "+q.Method, http.StatusNotImplemented)
		return
	}
	var a answer
	a.explain(run(r.Context(), h.backend, q, &a))
	var body bytes.Buffer
	if err := gob.NewEncoder(&body).Encode(a); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	_, _ = w.Write(body.Bytes())
}

// operations are what can be asked for, by the names of the methods of [storage.Backend].
var operations = map[string]func(context.Context, storage.Backend, request, *answer) error{
	"Get": func(ctx context.Context, b storage.Backend, q request, a *answer) error {
		item, err := b.Get(ctx, q.Key)
		a.Items = []storage.Item{item}
		return err
	},
	"GetMany": func(ctx context.Context, b storage.Backend, q request, a *answer) (err error) {
		a.Items, err = b.GetMany(ctx, q.Keys)
		return err
	},
	"Put": func(ctx context.Context, b storage.Backend, q request, a *answer) error {
		item, err := b.Put(ctx, q.put())
		a.Items = []storage.Item{item}
		return err
	},
	"Lineage": func(ctx context.Context, b storage.Backend, _ request, a *answer) (err error) {
		a.Lineage, err = b.Lineage(ctx)
		return err
	},
	"Delete": func(ctx context.Context, b storage.Backend, q request, _ *answer) error { return b.Delete(ctx, q.Key) },
	"IndexAdd": func(ctx context.Context, b storage.Backend, q request, _ *answer) error {
		return b.IndexAdd(ctx, q.Index, q.Entry)
	},
	"IndexRemove": func(ctx context.Context, b storage.Backend, q request, _ *answer) error {
		return b.IndexRemove(ctx, q.Index, q.Entry)
	},
	"IndexPage": func(ctx context.Context, b storage.Backend, q request, a *answer) (err error) {
		a.Names, err = b.IndexPage(ctx, q.Index, q.After, q.Limit)
		return err
	},
	"IndexPageBefore": func(ctx context.Context, b storage.Backend, q request, a *answer) (err error) {
		a.Names, err = b.IndexPageBefore(ctx, q.Index, q.After, q.Limit)
		return err
	},
	"IndexLen": func(ctx context.Context, b storage.Backend, q request, a *answer) (err error) {
		a.Number, err = b.IndexLen(ctx, q.Index)
		return err
	},
	"Scan": func(ctx context.Context, b storage.Backend, q request, a *answer) (err error) {
		a.Names, a.Next, err = b.Scan(ctx, q.Prefix, q.After, q.Limit)
		return err
	},
}

// put returns the write of a request.
func (q request) put() storage.Put {
	condition := storage.Unchanged(q.Expected)
	if q.Any {
		condition = storage.Always
	}
	return storage.Put{
		Key: q.Key, Data: q.Data, If: condition, Operation: q.Operation, TTL: q.TTL, Listed: q.Listed, On: q.On,
		Confirmation: q.Confirmation, Forgettable: q.Forgettable,
	}
}
