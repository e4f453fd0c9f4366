// The Go client of the end-to-end tests: an HTTP and TLS implementation that
// shares no code with the server. Standard library only.
//
//	client get  -address HOST:PORT -ca FILE [-range R] [-parallel N] [-http2] PATH...
//	client connect -address HOST:PORT -ca FILE TARGET TEXT...
//	client ech  -address HOST:PORT -ca FILE -name NAME -configs BASE64 PATH
//	client idle -address HOST:PORT -ca FILE -count N PATH
//	client halves -address HOST:PORT [-ca FILE] -count N PATH
//	client load -address HOST:PORT [-ca FILE] -kind close|keep|http2 -parallel N PATH
//	client staple -address HOST:PORT -ca FILE [-tls 1.2]
//	client resume -address HOST:PORT -ca FILE [-tls 1.2] [-parallel N] [-for TIME] [-pause TIME] PATH
//
// get prints one line for each path: status, length, SHA-256, path. A single
// "-" reads the paths from standard input. With -http2 all of them go over one
// connection, -parallel at a time, and every answer must come over HTTP/2.
//
// idle opens N connections, makes one request on each and prints "ready"; it
// keeps them open until a line arrives on standard input, then makes a second
// request on every one and prints "alive" with the number that answered.
package main

import (
	"bufio"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"sync"
	"syscall"
	"time"
)

const limit = 150 * time.Second

func main() {
	if len(os.Args) < 2 {
		fail("usage: client get|connect|ech|halves|idle|load|resume|staple ...")
	}
	flags := flag.NewFlagSet(os.Args[1], flag.ExitOnError)
	address := flags.String("address", "", "host:port to connect to")
	authority := flags.String("ca", "", "PEM file with the authority to trust; plain HTTP without")
	ranges := flags.String("range", "", "value of a Range header")
	parallel := flags.Int("parallel", 1, "connections for get, load and resume")
	version := flags.String("tls", "", "1.2 or 1.3 only")
	duration := flags.Duration("for", time.Second, "how long to resume")
	pause := flags.Duration("pause", 0, "time between the connections of resume")
	http2 := flags.Bool("http2", false, "HTTP/2 for get")
	count := flags.Int("count", 1, "connections for halves and idle")
	name := flags.String("name", "", "host name that ech asks for")
	configs := flags.String("configs", "", "ECHConfigList of ech in base64")
	kind := flags.String("kind", "keep", "close, keep or http2 for load")
	_ = flags.Parse(os.Args[2:])

	raiseDescriptorLimit()
	var configuration *tls.Config
	if *authority != "" {
		configuration = &tls.Config{RootCAs: pool(*authority), ServerName: "localhost"}
		switch *version {
		case "1.2":
			configuration.MaxVersion = tls.VersionTLS12
		case "1.3":
			configuration.MinVersion = tls.VersionTLS13
		}
	}
	switch os.Args[1] {
	case "get":
		get(*address, configuration, *ranges, *parallel, *http2, flags.Args())
	case "connect":
		connect(*address, configuration, flags.Arg(0), flags.Args()[1:])
	case "ech":
		ech(*address, configuration, *name, *configs, flags.Arg(0))
	case "idle":
		idle(*address, configuration, *count, flags.Arg(0))
	case "halves":
		halves(*address, configuration, *count, flags.Arg(0))
	case "load":
		load(*address, configuration, *kind, *parallel, flags.Arg(0))
	case "staple":
		staple(*address, configuration)
	case "resume":
		resume(*address, configuration, *parallel, *duration, *pause, flags.Arg(0))
	default:
		fail("unknown command %q", os.Args[1])
	}
}

func get(address string, configuration *tls.Config, ranges string, parallel int, http2 bool, paths []string) {
	if len(paths) == 1 && paths[0] == "-" {
		paths = lines(os.Stdin)
	}
	scheme := "http"
	if configuration != nil {
		scheme = "https"
	}
	transport := &http.Transport{
		TLSClientConfig:     configuration,
		MaxIdleConnsPerHost: parallel,
		DisableCompression:  true,
		ForceAttemptHTTP2:   http2,
	}
	wanted := 2
	if !http2 {
		wanted = 1
		// An empty map switches HTTP/2 off.
		transport.TLSNextProto = map[string]func(string, *tls.Conn) http.RoundTripper{}
	}
	client := &http.Client{Timeout: limit, Transport: transport}
	results := make([]string, len(paths))
	work := make(chan int)
	var workers sync.WaitGroup
	for range parallelism(parallel) {
		workers.Add(1)
		go func() {
			defer workers.Done()
			for index := range work {
				results[index] = fetch(client, scheme+"://"+address+paths[index], ranges, wanted)
			}
		}()
	}
	for index := range paths {
		work <- index
	}
	close(work)
	workers.Wait()
	out := bufio.NewWriter(os.Stdout)
	for index, path := range paths {
		fmt.Fprintf(out, "%s %s\n", results[index], path)
	}
	_ = out.Flush()
}

func fetch(client *http.Client, url, ranges string, wanted int) string {
	request, err := http.NewRequest("GET", url, nil)
	check(err)
	if ranges != "" {
		request.Header.Set("Range", ranges)
	}
	response, err := client.Do(request)
	check(err)
	defer response.Body.Close()
	if response.ProtoMajor != wanted {
		fail("%s came over %s", url, response.Proto)
	}
	digest := sha256.New()
	length, err := io.Copy(digest, response.Body)
	check(err)
	return fmt.Sprintf("%d %d %x", response.StatusCode, length, digest.Sum(nil))
}

type connection struct {
	socket net.Conn
	reader *bufio.Reader
}

func idle(address string, configuration *tls.Config, count int, path string) {
	connections := make([]connection, count)
	each(count, func(index int) {
		connections[index] = open(address, configuration)
		check(connections[index].request(address, path))
	})
	fmt.Println("ready")
	_, _ = bufio.NewReader(os.Stdin).ReadString('\n')
	answered := 0
	var lock sync.Mutex
	each(count, func(index int) {
		if connections[index].request(address, path) == nil {
			lock.Lock()
			answered++
			lock.Unlock()
		}
	})
	fmt.Println("alive", answered)
}

// each runs the function for 0..count on a few goroutines, so that the
// server's accept queue is used but not flooded.
func each(count int, run func(int)) {
	work := make(chan int)
	var workers sync.WaitGroup
	for range parallelism(32) {
		workers.Add(1)
		go func() {
			defer workers.Done()
			for index := range work {
				run(index)
			}
		}()
	}
	for index := 0; index < count; index++ {
		work <- index
	}
	close(work)
	workers.Wait()
}

func open(address string, configuration *tls.Config) connection {
	socket, err := net.DialTimeout("tcp", address, limit)
	check(err)
	if configuration != nil {
		encrypted := tls.Client(socket, configuration)
		check(encrypted.Handshake())
		socket = encrypted
	}
	return connection{socket, bufio.NewReaderSize(socket, 1024)}
}

func (c *connection) request(address, path string) error {
	_ = c.socket.SetDeadline(time.Now().Add(limit))
	if _, err := fmt.Fprintf(c.socket, "GET %s HTTP/1.1\r\nHost: %s\r\n\r\n", path, address); err != nil {
		return err
	}
	response, err := http.ReadResponse(c.reader, nil)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if _, err := io.Copy(io.Discard, response.Body); err != nil {
		return err
	}
	if response.StatusCode != 200 {
		return fmt.Errorf("status %d", response.StatusCode)
	}
	return nil
}

// parallelism is a slice to range over: Go 1.19 cannot range over a number.
func parallelism(count int) []struct{} {
	return make([]struct{}, count)
}

func raiseDescriptorLimit() {
	var limits syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limits) == nil {
		limits.Cur = limits.Max
		_ = syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limits)
	}
}

func pool(file string) *x509.CertPool {
	pem, err := os.ReadFile(file)
	check(err)
	certificates := x509.NewCertPool()
	if !certificates.AppendCertsFromPEM(pem) {
		fail("no certificate in %s", file)
	}
	return certificates
}

func lines(from io.Reader) []string {
	var all []string
	for scanner := bufio.NewScanner(from); scanner.Scan(); {
		all = append(all, scanner.Text())
	}
	return all
}

func check(err error) {
	if err != nil {
		fail("%v", err)
	}
}

func fail(format string, arguments ...any) {
	fmt.Fprintf(os.Stderr, "client: "+format+"\n", arguments...)
	os.Exit(1)
}
