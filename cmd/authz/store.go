package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	goredis "github.com/redis/go-redis/v9"

	"gatehouse.example/storage"
	"gatehouse.example/storage/redis"
)

// openStore opens the store of a server, and makes the folder of the default one. Warnings about settings of the store that may lose
// writes go to the log.
func (s *serveSettings) openStore(ctx context.Context, st *site, byDefault bool) (*storage.Store, error) {
	if byDefault {
		doubt, err := makeStateFolder(s.Store)
		if err != nil {
			return nil, err
		}
		if doubt != "" {
			st.log.Warn(doubt)
		}
	}
	backend, err := openBackend(ctx, s.Store, ofServer(st.log))
	if err != nil {
		return nil, err
	}
	return storage.New(st.traces.Store(st.countStore(backend)), storage.Options{Issuer: s.Issuer, MasterKeys: s.MasterKeys, MustSeal: s.Records == recordsSealed})
}

// recordsSealed is the value of the setting records that refuses records without a seal.
const recordsSealed = "sealed"

// locate completes the place of a store for a verb. It returns the path if that is a file, and
// whether the operator named it.
func (s *storePlace) locate() (path string, named bool, err error) {
	if named = s.Store != ""; !named {
		if s.Store, err = defaultStore(); err != nil {
			return "", false, usageError{err}
		}
	}
	path, err = s.Store.File()
	switch {
	case err != nil:
		return "", named, usageError{fmt.Errorf("store: %w", err)}
	case s.Store.Embedded():
		return "", named, usageError{errors.New("store embedded: is in the memory of the running server, and no other process can reach it: run the server with --store file:PATH or redis://… to administer it")}
	}
	return path, named, nil
}

// open opens the store for a verb, and says which file that is. A server may be running over the
// same store.
func (s *storeSettings) open(ctx context.Context, p *program) (*storage.Store, error) {
	return s.openWith(ctx, p, storeOptions{})
}

// openQuietly opens the store for a verb that a file is about, and says nothing.
func (s *storeSettings) openQuietly(ctx context.Context) (*storage.Store, error) {
	if err := s.mistake(); err != nil {
		return nil, usageError{err}
	}
	backend, err := openBackend(ctx, s.Store, storeOptions{})
	if err != nil {
		return nil, err
	}
	return storage.New(backend, s.options())
}

func (s *storeSettings) openWith(ctx context.Context, p *program, o storeOptions) (*storage.Store, error) {
	path, named, err := s.locate()
	if err != nil {
		return nil, err
	}
	if err := s.mistake(); err != nil {
		return nil, usageError{err}
	}
	if path != "" {
		fmt.Fprintf(p.stderr, "authz: the store is %s\n", wordOf(path))
	}
	backend, err := openBackend(ctx, s.Store, o)
	if errors.Is(err, fs.ErrNotExist) && !named {
		return nil, usageError{err}
	}
	if err != nil {
		return nil, err
	}
	store, err := storage.New(backend, s.options())
	if err == nil {
		err = p.recordAct(ctx, s.actSettings, s.sealSettings, auditHeads{store})
	}
	if err != nil {
		_ = backend.Close()
		return nil, err
	}
	return store, nil
}

// mistake returns an error if a setting is missing or wrong.
func (s *sealSettings) mistake() error {
	switch {
	case s.Issuer == "":
		return errors.New("issuer is not set: name the issuer of the server with --issuer or --config; records are sealed for it")
	case len(s.MasterKeys) == 0:
		return errors.New("master-keys is not set: give the keys of the server as AUTHZ_MASTER_KEYS, or the file that holds them as AUTHZ_MASTER_KEYS_FILE; records are sealed under them")
	}
	return recordsMistake(s.Records)
}

// options returns the settings of the server for its records.
func (s *sealSettings) options() storage.Options {
	return storage.Options{Issuer: s.Issuer, MasterKeys: s.MasterKeys, MustSeal: s.Records == recordsSealed}
}

// storeMistake returns an error if the URL of the store is malformed. It does not connect.
func (s *serveSettings) storeMistake() error {
	if s.Store == "" {
		return nil // reported already
	}
	if path, err := s.Store.File(); path != "" || err != nil {
		return nil // reported already
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel() // Open parses the URL first; then the connection fails at once
	backend, err := redis.Open(ctx, redis.Options{URL: string(s.Store)})
	if err == nil {
		return backend.Close()
	}
	if errors.Is(err, context.Canceled) {
		return nil
	}
	return fmt.Errorf("store: %w", err)
}

// quietRedis turns off the lines that the Redis client writes to standard error. Failures are
// also returned as errors.
func quietRedis() { goredis.SetLogger(silence{}) }

type silence struct{}

// Printf drops a line.
func (silence) Printf(context.Context, string, ...any) {}
