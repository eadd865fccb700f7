package storage

import (
	"context"
	"iter"

	"gatehouse.example/internal/limited"
)

// pageSize is how many entries of an index are read at once.
const pageSize = 100

func (s *Store) indexRemove(ctx context.Context, index, entry string) error {
	attempt := limited.Within(ctx, s.attemptTime)
	defer attempt.End()
	if err := s.backend.IndexRemove(attempt, index, entry); err != nil {
		return unavailable("index", err)
	}
	return nil
}

// indexed returns the entries of an index in ascending order, read one page at a time.
func (s *Store) indexed(ctx context.Context, index string) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		after := ""
		for {
			page, err := s.indexPage(ctx, index, after, pageSize)
			if err != nil {
				yield("", err)
				return
			}
			for _, entry := range page {
				if !yield(entry, nil) {
					return
				}
				after = entry
			}
			if len(page) < pageSize {
				return
			}
		}
	}
}

func (s *Store) indexPage(ctx context.Context, index, after string, limit int) ([]string, error) {
	attempt := limited.Within(ctx, s.attemptTime)
	defer attempt.End()
	page, err := s.backend.IndexPage(attempt, index, after, limit)
	if err != nil {
		return nil, unavailable("index", err)
	}
	return page, nil
}

func (s *Store) indexLen(ctx context.Context, index string) (int, error) {
	attempt := limited.Within(ctx, s.attemptTime)
	defer attempt.End()
	n, err := s.backend.IndexLen(attempt, index)
	if err != nil {
		return 0, unavailable("index", err)
	}
	return n, nil
}
