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

// FileConfig says which file is read, and read again whenever it changes. Path is required.
type FileConfig struct {
	Path string
	// Every is how often it is looked whether the file has changed, when somebody asks for
	// what is in it. Default 1 s.
	Every time.Duration
	// Now is the clock; nil means time.Now.
	Now func() time.Time
	// Logger learns that the file was read again, or cannot be used. The default discards.
	Logger *slog.Logger
}

// maxFile bounds a file.
const maxFile = 16 << 20

// watched is a file that is read again when its time or its size changes. One that cannot be
// used is as if it had not changed.
type watched[T any] struct {
	c     FileConfig
	parse func([]byte) (T, error)
	good  atomic.Pointer[content[T]]

	looking sync.Mutex
	looked  time.Time
	stamp   fileStamp
	sum     [sha256.Size]byte // of what was read last
	trouble string            // that was told
}

// content is what a file had in it.
type content[T any] struct {
	value    T
	revision string
}

// fileStamp tells versions of a file apart. One that was written just before it was read
// may be written again without another stamp.
type fileStamp struct {
	size  int64
	time  time.Time
	fresh bool
}

// freshTime is how long a file is believed to have been written just now.
const freshTime = 2 * time.Second

// watch reads a file for the first time, and refuses one that cannot be used.
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
	w.looked = c.Now()
	return w, nil
}

// get returns what is in the file. Nobody waits for somebody else who reads it.
func (w *watched[T]) get() *content[T] {
	if w.looking.TryLock() {
		defer w.looking.Unlock()
		if now := w.c.Now(); now.Sub(w.looked) >= w.c.Every {
			w.looked = now
			w.look()
		}
	}
	return w.good.Load()
}

// look reads the file again if it has changed. Trouble is told once.
func (w *watched[T]) look() {
	before := w.good.Load()
	err := w.read()
	switch {
	case err == nil && w.good.Load() != before:
		w.trouble = ""
		w.c.Logger.Info("registry: a file has changed and was read again", "file", w.c.Path)
	case err != nil && err.Error() != w.trouble:
		w.trouble = err.Error()
		w.c.Logger.Error("registry: a file has changed and cannot be used: what was in it before still holds", "file", w.c.Path, "error", err)
	}
}

// read reads the file unless it is as it was.
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
		return nil
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
		if w.trouble != "" {
			return errors.New(w.trouble)
		}
		return nil
	}
	w.sum = sum
	value, err := w.parse(data)
	if err != nil {
		return fmt.Errorf("registry: %w", err)
	}
	w.good.Store(&content[T]{value, hex.EncodeToString(sum[:12])})
	return nil
}

// OwnFile is a file of servers of our own.
type OwnFile struct{ file *watched[[]Item] }

// OpenOwnFile reads a file with servers of our own, or refuses it. The file is in whatever
// form decode reads, whose errors name the file.
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

// Items returns the servers in the file as it is now.
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

// MetaFile is a file with what is said about servers under our own key of _meta: ratings,
// the results of scans, tags. It is an object whose keys are names of servers, for all
// their versions, or a name, @ and a version. Values are objects. Of a version, the members
// of both hold, and its own where both have one.
type MetaFile struct {
	file *watched[map[string]json.RawMessage]
}

// maxMeta is how many bytes may be said about one version.
const maxMeta = 64 << 10

// OpenMetaFile reads such a file, or refuses it. Decode turns what is in it into JSON, and its
// errors name the file; nil means that it is JSON.
func OpenMetaFile(c FileConfig, decode func([]byte) (json.RawMessage, error)) (*MetaFile, error) {
	file, err := watch(c, func(data []byte) (map[string]json.RawMessage, error) {
		if decode != nil {
			var err error
			if data, err = decode(data); err != nil {
				return nil, err
			}
		}
		said, err := parseMeta(data)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", c.Path, err)
		}
		return said, nil
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
			all[key] = over(all[name], value)
		}
	}
	return all, errors.Join(errs...)
}

// over puts the members of one object over those of another. Each keeps its bytes.
func over(below, above []byte) json.RawMessage {
	members := rawjson.Members(above)
	for _, m := range rawjson.Members(below) {
		if rawjson.Find(members, m.Name) == nil {
			members = append(members, m)
		}
	}
	return rawjson.Object(members)
}

// Enrich returns what the file says about an item, nil for nothing.
func (f *MetaFile) Enrich(item Item) (json.RawMessage, error) {
	all := f.file.get().value
	if said, ok := all[item.Record.Name()+"@"+item.Record.Version()]; ok {
		return said, nil
	}
	return all[item.Record.Name()], nil
}

// Revision names what is in the file now.
func (f *MetaFile) Revision() string { return f.file.get().revision }
