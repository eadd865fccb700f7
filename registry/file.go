package registry

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"gatehouse.example/internal/strictjson"
	"gatehouse.example/registry/internal/rawjson"
)

// FileConfig configures a file that is read again when it changes. Path is required.
type FileConfig struct {
	Path string
	// Every is the minimum interval between two checks for a change. A check takes place when
	// the content is requested. Default 1 s.
	Every time.Duration
	// Now is the clock; nil means time.Now. Set it in tests.
	Now func() time.Time
	// Logger receives a line when the file was read again and when it cannot be used. The
	// default discards them.
	Logger *slog.Logger
}

// maxFile is the size limit of a file in bytes.
const maxFile = 16 << 20

// watched is a file that is read again when its time or its size changes. While the file
// cannot be used, the last good content stays in use.
type watched[T any] struct {
	c     FileConfig
	parse func([]byte) (T, error)
	good  atomic.Pointer[content[T]]

	checking  sync.Mutex // protects the fields below
	checked   time.Time
	stamp     fileStamp
	sum       [sha256.Size]byte // of the bytes read last
	fault     error             // why those cannot be used, nil if they can
	lastError string            // the error logged last, "" since the file can be used again
}

// content is the parsed content of a file.
type content[T any] struct {
	value    T
	revision string
}

// fileStamp distinguishes versions of a file. A file that was written shortly before it was
// read (fresh) may be written again without a change of the stamp.
type fileStamp struct {
	size  int64
	time  time.Time
	fresh bool
}

// freshTime is the age below which a file counts as fresh.
const freshTime = 2 * time.Second

// watch reads a file for the first time. It returns an error if the file cannot be used.
func watch[T any](c FileConfig, parse func([]byte) (T, error)) (*watched[T], error) {
	c.Every = cmp.Or(c.Every, time.Second)
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	w := &watched[T]{c: c, parse: parse}
	if err := w.read(); err != nil {
		return nil, err
	}
	w.checked = c.Now()
	return w, nil
}

// get returns the last good content, and checks for a change first if that is due. While
// another goroutine checks, get does not wait for it.
func (w *watched[T]) get() *content[T] {
	if w.checking.TryLock() {
		defer w.checking.Unlock()
		if now := w.c.Now(); now.Sub(w.checked) >= w.c.Every {
			w.checked = now
			w.check()
		}
	}
	return w.good.Load()
}

// check reads the file again if it has changed. It logs a repeated error once.
func (w *watched[T]) check() {
	before := w.good.Load()
	err := w.read()
	switch {
	case err == nil && w.good.Load() == before:
		w.lastError = ""
	case err == nil:
		w.lastError = ""
		w.c.Logger.Info("registry: a file has changed and was read again", "file", w.c.Path)
	case err.Error() != w.lastError:
		w.lastError = err.Error()
		w.c.Logger.Error("registry: a file has changed and cannot be used: its earlier content stays in use", "file", w.c.Path, "error", err)
	}
}

// read reads and parses the file unless it is unchanged.
func (w *watched[T]) read() error {
	f, err := os.Open(w.c.Path)
	if err != nil {
		return fmt.Errorf("registry: %w", err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return fmt.Errorf("registry: %w", err)
	}
	stamp := fileStamp{info.Size(), info.ModTime(), w.c.Now().Sub(info.ModTime()) < freshTime}
	if stamp == w.stamp && !stamp.fresh {
		return w.fault
	}
	data, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err == nil && len(data) > maxFile {
		err = fmt.Errorf("more than %d bytes", maxFile)
	}
	if err != nil {
		return fmt.Errorf("registry: %s: %w", w.c.Path, err)
	}
	w.stamp = stamp
	sum := sha256.Sum256(data)
	if sum == w.sum {
		return w.fault
	}
	w.sum, w.fault = sum, nil
	value, err := w.parse(data)
	if err != nil {
		w.fault = fmt.Errorf("registry: %w", err)
		return w.fault
	}
	w.good.Store(&content[T]{value, hex.EncodeToString(sum[:12])})
	return nil
}

// OwnFile is a file of own servers, which is read again when it changes.
type OwnFile struct{ file *watched[[]Item] }

// OpenOwnFile reads a file of own servers. It returns an error if the file cannot be read or a
// server in it is invalid. decode parses the file; its errors should name the file.
func OpenOwnFile(c FileConfig, decode func([]byte) ([]OwnServer, error)) (*OwnFile, error) {
	file, err := watch(c, func(data []byte) ([]Item, error) {
		servers, err := decode(data)
		if err != nil {
			return nil, err
		}
		items, err := ownItems(servers)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", c.Path, err)
		}
		return items, nil
	})
	return &OwnFile{file}, err
}

// Items returns the servers in the file. It may read the file again, see [FileConfig].Every.
func (f *OwnFile) Items() []Item { return f.file.get().value }

func ownItems(servers []OwnServer) ([]Item, error) {
	var errs []error
	items := make([]Item, 0, len(servers))
	for i, s := range servers {
		item, err := s.Item()
		if err != nil {
			errs = append(errs, fmt.Errorf("server %d, %s: %w", i+1, cmp.Or(s.Name, s.URL, "a whole record"), err))
		}
		items = append(items, item)
	}
	return items, cmp.Or(errors.Join(errs...), CheckOwn(items))
}

// MetaFile is a file of data about servers, such as ratings, scan results or tags, which this
// registry adds under its own key of _meta. It is a JSON object. A key is the name of a server,
// for all its versions, or a name, @ and a version; a value is an object. For a version, the
// members of both objects are merged, and those of the version win.
type MetaFile struct {
	file *watched[map[string]json.RawMessage]
}

// maxMeta is the size limit of the data about one version in bytes.
const maxMeta = 64 << 10

// OpenMetaFile reads a file of data about servers. It returns an error if the file cannot be
// used. decode converts the file to JSON, and its errors should name the file; nil means that
// the file is JSON.
func OpenMetaFile(c FileConfig, decode func([]byte) (json.RawMessage, error)) (*MetaFile, error) {
	file, err := watch(c, func(data []byte) (map[string]json.RawMessage, error) {
		if decode != nil {
			var err error
			if data, err = decode(data); err != nil {
				return nil, err
			}
		}
		meta, err := parseMeta(data)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", c.Path, err)
		}
		return meta, nil
	})
	return &MetaFile{file}, err
}

func parseMeta(data []byte) (map[string]json.RawMessage, error) {
	var all map[string]json.RawMessage
	if err := strictjson.Unmarshal(data, &all, strictjson.Options{MaxBytes: maxFile, MaxDepth: MaxDepth}); err != nil {
		return nil, err
	}
	var errs []error
	for _, key := range slices.Sorted(maps.Keys(all)) {
		name, version, versioned := strings.Cut(key, "@")
		switch value := all[key]; {
		case !ValidName(name) || versioned && wrongVersion(version) != "":
			errs = append(errs, fmt.Errorf("%.200q is neither the name of a server nor a name, @ and a version", key))
		case !rawjson.IsObject(value):
			errs = append(errs, fmt.Errorf("%s: it must be an object", key))
		case len(value) > maxMeta/2:
			errs = append(errs, fmt.Errorf("%s: more than %d bytes", key, maxMeta/2))
		case versioned && rawjson.IsObject(all[name]):
			all[key] = merge(all[name], value)
		}
	}
	return all, errors.Join(errs...)
}

// merge returns an object with the members of both objects, those of special where both have
// one. Each member keeps its bytes.
func merge(general, special []byte) json.RawMessage {
	members := rawjson.Members(special)
	for _, m := range rawjson.Members(general) {
		if rawjson.Find(members, m.Name) == nil {
			members = append(members, m)
		}
	}
	return rawjson.Object(members)
}

// Enrich returns the data about an item as a JSON object, nil if the file has none. The error
// is always nil. Enrich may read the file again, see [FileConfig].Every.
func (f *MetaFile) Enrich(item Item) (json.RawMessage, error) {
	all := f.file.get().value
	if meta, ok := all[item.Record.Name()+"@"+item.Record.Version()]; ok {
		return meta, nil
	}
	return all[item.Record.Name()], nil
}

// Revision returns a string that changes whenever the content of the file changes.
func (f *MetaFile) Revision() string { return f.file.get().revision }
