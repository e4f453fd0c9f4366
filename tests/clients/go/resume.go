package main

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"sort"
	"sync"
	"time"
)

// resume opens connections one after another in each of several lanes, for some
// time. Every lane has one session, taken from the connection before, and makes
// one request on each connection. Prints one line:
//
//	connections=N resumed=R failed=F p50_us=... p99_us=...
//
// where N leaves out the first connection of each lane, which has nothing to
// resume, and the times are those of the handshakes. The first failures go to
// standard error.
func resume(address string, configuration *tls.Config, lanes int, duration, pause time.Duration, path string) {
	var all result
	var lock sync.Mutex
	var workers sync.WaitGroup
	end := time.Now().Add(duration)
	for range parallelism(lanes) {
		workers.Add(1)
		go func() {
			defer workers.Done()
			one := lane(address, configuration.Clone(), end, pause, path)
			lock.Lock()
			defer lock.Unlock()
			all.connections += one.connections
			all.resumed += one.resumed
			all.failures = append(all.failures, one.failures...)
			all.times = append(all.times, one.times...)
		}()
	}
	workers.Wait()
	sort.Slice(all.times, func(i, j int) bool { return all.times[i] < all.times[j] })
	at := func(percent int) int64 {
		if len(all.times) == 0 {
			return 0
		}
		return all.times[(len(all.times)-1)*percent/100].Microseconds()
	}
	for i, failure := range all.failures {
		if i == 10 {
			break
		}
		fmt.Fprintln(os.Stderr, failure)
	}
	fmt.Printf("connections=%d resumed=%d failed=%d p50_us=%d p99_us=%d\n",
		all.connections, all.resumed, len(all.failures), at(50), at(99))
}

type result struct {
	connections, resumed int
	failures             []error
	times                []time.Duration
}

func lane(address string, configuration *tls.Config, end time.Time, pause time.Duration, path string) result {
	var all result
	configuration.ClientSessionCache = tls.NewLRUClientSessionCache(1)
	for first := true; first || time.Now().Before(end); first = false {
		resumed, took, err := once(address, configuration, path)
		if err != nil {
			all.failures = append(all.failures, err)
		} else {
			all.times = append(all.times, took)
		}
		if !first {
			all.connections++
			if resumed {
				all.resumed++
			}
		}
		time.Sleep(pause)
	}
	return all
}

func once(address string, configuration *tls.Config, path string) (bool, time.Duration, error) {
	socket, err := net.DialTimeout("tcp", address, limit)
	if err != nil {
		return false, 0, err
	}
	defer socket.Close()
	_ = socket.SetDeadline(time.Now().Add(limit))
	start := time.Now()
	encrypted := tls.Client(socket, configuration)
	if err := encrypted.Handshake(); err != nil {
		return false, 0, fmt.Errorf("handshake: %w", err)
	}
	took := time.Since(start)
	if _, err := fmt.Fprintf(encrypted, "GET %s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n", path); err != nil {
		return false, 0, err
	}
	response, err := http.ReadResponse(bufio.NewReader(encrypted), nil)
	if err != nil {
		return false, 0, fmt.Errorf("response: %w", err)
	}
	defer response.Body.Close()
	// To the end, so that the tickets behind the handshake are read as well.
	if _, err := io.Copy(io.Discard, response.Body); err != nil {
		return false, 0, err
	}
	if response.StatusCode != 200 {
		return false, 0, fmt.Errorf("status %d", response.StatusCode)
	}
	return encrypted.ConnectionState().DidResume, took, nil
}
