package local

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"gatehouse.example/storage"
)

// limits are what clients may cost.
type limits struct {
	connections int
	// header, body and answer are how long the parts of a request may take on the way.
	header, body, answer time.Duration
	// idle is how long a connection without a request is kept, for longer than clients keep it.
	idle time.Duration
	// stall is how long a client may take no bytes of a snapshot. Meanwhile the server's file grows.
	stall time.Duration
	// close is how long [Server.Close] waits for requests under way.
	close time.Duration
}

// usual are the limits of every server. A verb has a few operations under way at a time.
var usual = limits{
	connections: 32, header: 5 * time.Second, body: 20 * time.Second, answer: 20 * time.Second, idle: time.Minute,
	stall: stallTime, close: 4 * time.Second,
}

// Server answers the programs that open a file's store while a process has the file open.
type Server struct {
	http     *http.Server
	finished sync.WaitGroup
	limits   limits
}

// Serve begins to listen beside the file at path, which this process has open as backend. It
// replaces a socket that a process before has left: who has the file open is the only server.
// The error says why programs on this machine cannot reach the server.
func Serve(path string, backend storage.Backend) (*Server, error) {
	return serve(path, backend, usual)
}

func serve(path string, backend storage.Backend, l limits) (*Server, error) {
	if !peersKnown {
		return nil, errors.New("storage/file/local: this system does not tell who connects to a socket")
	}
	listener, err := listen(path)
	if err != nil {
		return nil, fmt.Errorf("storage/file/local: %w", err)
	}
	h := handler{backend, l}
	s := &Server{limits: l, http: &http.Server{
		Handler: h.routes(), ReadHeaderTimeout: l.header, IdleTimeout: l.idle, MaxHeaderBytes: 16 << 10,
	}}
	limited := connections{listener, make(chan struct{}, l.connections)}
	s.finished.Go(func() { _ = s.http.Serve(limited) })
	return s, nil
}

// Close stops listening, waits up to four seconds for the requests under way, and ends those that
// are left. The file is closed after it.
func (s *Server) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), s.limits.close)
	defer cancel()
	err := s.http.Shutdown(ctx)
	if errors.Is(err, context.DeadlineExceeded) {
		err = s.http.Close()
	}
	s.finished.Wait()
	return err
}

// handler carries out what is asked for.
type handler struct {
	backend storage.Backend
	limits  limits
}

// routes returns what the server answers.
func (h handler) routes() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST "+operationPath, h.operate)
	mux.HandleFunc("POST "+snapshotPath, h.snapshot)
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		http.Error(w, fmt.Sprintf("version %s of the protocol has no %.10s %.40s: use the program of the server's release", version, r.Method, r.URL.Path), http.StatusNotFound)
	})
	return mux
}

// operate carries out an operation. Whatever is refused here was not begun.
func (h handler) operate(w http.ResponseWriter, r *http.Request) {
	q, status, err := h.receive(w, r)
	if err != nil {
		http.Error(w, err.Error(), status)
		return
	}
	var a answer
	a.explain(operations[q.Method](r.Context(), h.backend, q, &a))
	body, err := pack(a, maxAnswer)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(h.limits.answer))
	_, _ = w.Write(body)
}

// receive returns the request, or the status with which it is refused.
func (h handler) receive(w http.ResponseWriter, r *http.Request) (q request, status int, err error) {
	c := http.NewResponseController(w)
	if err := errors.Join(c.SetReadDeadline(time.Now().Add(h.limits.body)), c.SetWriteDeadline(time.Time{})); err != nil {
		return q, http.StatusInternalServerError, err
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxRequest))
	if large := (*http.MaxBytesError)(nil); errors.As(err, &large) {
		return q, http.StatusRequestEntityTooLarge, fmt.Errorf("a request has at most %d bytes", large.Limit)
	}
	if err != nil {
		return q, http.StatusBadRequest, err
	}
	// What follows takes as long as the disk does; only a client that hangs up ends it.
	if err := c.SetReadDeadline(time.Time{}); err != nil {
		return q, http.StatusInternalServerError, err
	}
	if err := unpack(body, &q); err != nil {
		return q, http.StatusBadRequest, err
	}
	if operations[q.Method] == nil {
		return q, http.StatusNotImplemented, fmt.Errorf("there is no operation %.40q", q.Method)
	}
	return q, http.StatusOK, nil
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
	"Count": func(ctx context.Context, b storage.Backend, q request, a *answer) (err error) {
		a.Counted, err = b.Count(ctx, storage.Counting{Pool: q.Pool, Counts: q.Counts})
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
