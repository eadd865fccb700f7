package local_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"strings"
	"testing"

	"gatehouse.example/storage"
	"gatehouse.example/storage/file"
	"gatehouse.example/storage/file/local"
)

// onLinux skips a test where no server answers.
func onLinux(t *testing.T) {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("tried on Linux only")
	}
}

// openFile returns a store in a new file.
func openFile(t *testing.T) (path string, b *file.Backend) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "db")
	b, err := file.Open(file.Options{Path: path, Create: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = b.Close() })
	return path, b
}

// speaker returns an HTTP client of the socket beside a file.
func speaker(t *testing.T, path string) *http.Client {
	transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", filepath.Join(path+".socket", "store"))
	}}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

// TestRefusedByTheServer: a request with anything after its message, of another version, for no
// operation or too large is refused with the status that says so, and nothing is done.
func TestRefusedByTheServer(t *testing.T) {
	onLinux(t)
	t.Parallel()
	path, b := openFile(t)
	server, err := local.Serve(path, b)
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	good := local.PackAdd("index", "entry")
	for _, c := range []struct {
		what, method, path string
		body               []byte
		want               int
	}{
		{"something after the message", "POST", local.OperationPath, append(bytes.Clone(good), 0), 400},
		{"two messages", "POST", local.OperationPath, append(bytes.Clone(good), good...), 400},
		{"a part of a message", "POST", local.OperationPath, good[:len(good)-1], 400},
		{"nothing", "POST", local.OperationPath, nil, 400},
		{"an earlier version", "POST", "/0/operation", good, 404},
		{"no version", "POST", "/", good, 404},
		{"another method", "PUT", local.OperationPath, good, 404},
		{"too much", "POST", local.OperationPath, append(bytes.Clone(good), make([]byte, local.MaxRequest)...), 413},
		{"no operation", "POST", local.OperationPath, local.PackOther(), 501},
	} {
		r, err := http.NewRequestWithContext(t.Context(), c.method, "http://store"+c.path, bytes.NewReader(c.body))
		if err != nil {
			t.Fatal(err)
		}
		resp, err := speaker(t, path).Do(r)
		if err != nil {
			t.Errorf("%s: %v", c.what, err)
			continue
		}
		said, _ := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		if resp.StatusCode != c.want || len(said) == 0 {
			t.Errorf("%s: %s, %q; want %d", c.what, resp.Status, said, c.want)
		}
	}
	if n, err := b.IndexLen(t.Context(), "index"); n != 0 || err != nil {
		t.Errorf("%d entries were made, %v", n, err)
	}
	resp, err := speaker(t, path).Post("http://store"+local.OperationPath, "", bytes.NewReader(good))
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("the same without a mistake: %v, %v", resp, err)
	}
	_ = resp.Body.Close()
	if n, _ := b.IndexLen(t.Context(), "index"); n != 1 {
		t.Errorf("%d entries", n)
	}
}

// impostor answers each write beside the file at path with a status and a body, and the first
// question of a client as a server does.
func impostor(t *testing.T, path string, status int, body []byte) {
	t.Helper()
	if err := os.Mkdir(path+".socket", 0o700); err != nil {
		t.Fatal(err)
	}
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "unix", filepath.Join(path+".socket", "store"))
	if err != nil {
		t.Fatal(err)
	}
	asked := false
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		if !asked {
			asked = true
			_, _ = w.Write(local.PackAnswer("lineage"))
			return
		}
		w.WriteHeader(status)
		_, _ = w.Write(body)
	})}
	t.Cleanup(func() { _ = server.Close() })
	go func() { _ = server.Serve(l) }()
}

// TestRefusedIsNotUncertain: a write that the server did not begin has a known outcome, and one
// whose answer cannot be read has not.
func TestRefusedIsNotUncertain(t *testing.T) {
	t.Parallel()
	answer := local.PackAnswer("")
	for _, c := range []struct {
		status    int
		body      []byte
		uncertain bool
	}{
		{400, []byte("a mistake"), false}, {404, nil, false}, {405, nil, false}, {413, nil, false}, {501, nil, false},
		{500, nil, true}, {503, nil, true}, {302, nil, true},
		{200, nil, true}, {200, answer[:len(answer)-1], true}, {200, append(bytes.Clone(answer), 0), true},
	} {
		t.Run(fmt.Sprintf("%d %d", c.status, len(c.body)), func(t *testing.T) {
			t.Parallel()
			path, _ := openFile(t)
			impostor(t, path, c.status, c.body)
			b, err := local.Open(t.Context(), path)
			if err != nil {
				t.Fatal(err)
			}
			defer b.Close()
			err = b.IndexAdd(t.Context(), "index", "entry")
			if err == nil || errors.Is(err, storage.ErrUncertain) != c.uncertain || !strings.Contains(err.Error(), string(c.body)) && c.status != 200 {
				t.Errorf("a write returned %v", err)
			}
			_, err = b.Get(t.Context(), "key")
			if err == nil || errors.Is(err, storage.ErrUncertain) || errors.Is(err, storage.ErrUnavailable) != c.uncertain {
				t.Errorf("a read returned %v", err)
			}
		})
	}
}

// TestLargeRequest: what a server would refuse is not sent.
func TestLargeRequest(t *testing.T) {
	t.Parallel()
	path, _ := openFile(t)
	impostor(t, path, 200, local.PackAnswer(""))
	b, err := local.Open(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	_, err = b.Put(t.Context(), storage.Put{Key: "key", Operation: storage.Version{1}, Data: make([]byte, local.MaxRequest)})
	if err == nil || errors.Is(err, storage.ErrUncertain) || !strings.Contains(err.Error(), "at most") {
		t.Errorf("it returned %v", err)
	}
}

// messages are the fields of the messages of each version of the protocol. A version stays as it
// is: other fields are another version, because gob leaves out what the other side does not know.
var messages = map[string]string{
	"1": "request{Method string, Key string, Index string, Keys []string, Entry string, Prefix string, After string, Limit int, Data []uint8, Any bool, " +
		"Expected storage.Version, Operation storage.Version, TTL time.Duration, Listed []storage.Listing{Index string, Entry string}, On storage.Lineage, " +
		"Confirmation bool, Forgettable bool} " +
		"answer{Items []storage.Item{Data []uint8, Version storage.Version}, Names []string, Next string, Number int, Lineage storage.Lineage, Fault string, Text string}",
	"2": "request{Method string, Key string, Index string, Keys []string, Entry string, Prefix string, After string, Limit int, Data []uint8, Any bool, " +
		"Expected storage.Version, Operation storage.Version, TTL time.Duration, Listed []storage.Listing{Index string, Entry string}, On storage.Lineage, " +
		"Confirmation bool, Forgettable bool, Pool string, Counts []storage.Count{Area int, Name string, Per time.Duration, Need time.Duration, Spend time.Duration}} " +
		"answer{Items []storage.Item{Data []uint8, Version storage.Version}, Names []string, Next string, Number int, Lineage storage.Lineage, " +
		"Counted storage.Counted{Done bool, Owed []time.Duration}, Fault string, Text string}",
}

// TestVersion: the messages have the fields of their version.
func TestVersion(t *testing.T) {
	t.Parallel()
	var got []string
	for _, m := range local.Messages() {
		got = append(got, m.Name()+fields(m))
	}
	if want := messages[local.Version]; strings.Join(got, " ") != want {
		t.Errorf("version %s has\n%s\nwant\n%s", local.Version, strings.Join(got, " "), want)
	}
	if !strings.HasPrefix(local.OperationPath, "/"+local.Version+"/") {
		t.Errorf("the path is %s", local.OperationPath)
	}
}

// fields returns the fields of a struct, or of the elements of a list of structs.
func fields(of reflect.Type) string {
	if of.Kind() == reflect.Slice {
		of = of.Elem()
	}
	if of.Kind() != reflect.Struct {
		return ""
	}
	var all []string
	for i := range of.NumField() {
		f := of.Field(i)
		all = append(all, f.Name+" "+f.Type.String()+fields(f.Type))
	}
	return "{" + strings.Join(all, ", ") + "}"
}
