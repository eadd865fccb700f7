package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	goredis "github.com/redis/go-redis/v9"

	"gatehouse.example/storage"
	"gatehouse.example/storage/redis"
)

// openStore opens the store of a server. What it may forget in a crash goes to the log.
func (s *settings) openStore(ctx context.Context, log *slog.Logger) (*storage.Store, error) {
	backend, err := redis.Open(ctx, redis.Options{
		URL: string(s.Store), OnWarning: func(sentence string) { log.Warn(sentence) },
	})
	if err != nil {
		return nil, fmt.Errorf("store: %w", err)
	}
	return storage.New(backend, storage.Options{Issuer: s.Issuer, MasterKeys: s.MasterKeys})
}

// open opens the store for a verb that works beside a running server. It takes no
// master keys: people are not sealed.
func (s *storeSettings) open(ctx context.Context) (*storage.Store, error) {
	return s.openWith(ctx, storage.Options{})
}

// openWith opens the store for a verb that needs more than the records.
func (s *storeSettings) openWith(ctx context.Context, o storage.Options) (*storage.Store, error) {
	switch {
	case s.Store == "":
		return nil, usageError{errors.New("store is not set: name the store of the server with --store or --config")}
	case s.Store.embedded():
		return nil, usageError{errors.New("store embedded: lives inside the running server, and nothing outside can reach it: run the server with --store redis://… to administer it")}
	}
	backend, err := redis.Open(ctx, redis.Options{URL: string(s.Store)})
	if err != nil {
		return nil, fmt.Errorf("store: %w", err)
	}
	return storage.New(backend, o)
}

// storeMistake finds a mistake in the store's URL without connecting to it.
func (s *settings) storeMistake() error {
	if s.Store == "" {
		return nil // reported already
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel() // the URL is read first; the connection then fails at once
	backend, err := redis.Open(ctx, redis.Options{URL: string(s.Store)})
	if err == nil {
		return backend.Close()
	}
	if errors.Is(err, context.Canceled) {
		return nil
	}
	return fmt.Errorf("store: %w", err)
}

// quietRedis silences the lines that the Redis client writes to standard error by
// itself. Whatever matters in them comes back as an error.
func quietRedis() { goredis.SetLogger(silence{}) }

type silence struct{}

// Printf drops a line.
func (silence) Printf(context.Context, string, ...any) {}
