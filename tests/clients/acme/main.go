// The name server beside Pebble: every name has the address 127.0.0.1, and TXT records come by
// dynamic updates (RFC 2136), which have to be signed if there is a key, and from a file. Zones can
// be delegated to other name servers.
package main

import (
	"flag"
	"fmt"
	"log"
	"net"
	"os"
	"strings"
	"sync"

	"github.com/miekg/dns"
)

type records struct {
	lock sync.Mutex
	// Texts by name.
	texts map[string][]string
	// A file with more of them, a name and a text in each line.
	file string
	// Where names lead that are aliases.
	aliases map[string]string
	// Name servers of zones, which are asked in turn.
	delegated map[string][]string
	asked     map[string]int
}

// Asks a name server of the zone that a name is in, if it is delegated.
func (r *records) fromOthers(name string, kind uint16) ([]dns.RR, int, bool) {
	for zone, servers := range r.delegated {
		if !dns.IsSubDomain(zone, name) {
			continue
		}
		r.lock.Lock()
		server := servers[r.asked[zone]%len(servers)]
		r.asked[zone]++
		r.lock.Unlock()
		question := new(dns.Msg)
		question.SetQuestion(name, kind)
		question.RecursionDesired = false
		question.SetEdns0(1232, false)
		answer, _, err := new(dns.Client).Exchange(question, server)
		if err == nil && answer.Truncated {
			answer, _, err = (&dns.Client{Net: "tcp"}).Exchange(question, server)
		}
		if err != nil {
			fmt.Printf("no answer of %s to %s: %v\n", server, name, err)
			return nil, dns.RcodeServerFailure, true
		}
		fmt.Printf("answer of %s to %s: %s, %d records\n", server, name,
			dns.RcodeToString[answer.Rcode], len(answer.Answer))
		return answer.Answer, answer.Rcode, true
	}
	return nil, 0, false
}

func (r *records) of(name string) []string {
	r.lock.Lock()
	defer r.lock.Unlock()
	found := append([]string{}, r.texts[name]...)
	content, _ := os.ReadFile(r.file)
	for _, line := range strings.Split(string(content), "\n") {
		if word, text, ok := strings.Cut(line, " "); ok && dns.Fqdn(word) == name {
			found = append(found, text)
		}
	}
	return found
}

func (r *records) change(record dns.RR) int {
	txt, ok := record.(*dns.TXT)
	if !ok {
		return dns.RcodeNotImplemented
	}
	r.lock.Lock()
	defer r.lock.Unlock()
	name, text := strings.ToLower(txt.Hdr.Name), strings.Join(txt.Txt, "")
	kept := []string{}
	for _, known := range r.texts[name] {
		if known != text {
			kept = append(kept, known)
		}
	}
	switch txt.Hdr.Class {
	case dns.ClassINET:
		fmt.Printf("add %s %s\n", name, text)
		kept = append(kept, text)
	case dns.ClassNONE:
		fmt.Printf("remove %s %s\n", name, text)
	default:
		return dns.RcodeFormatError
	}
	r.texts[name] = kept
	return dns.RcodeSuccess
}

func (r *records) answer(zone, key string, w dns.ResponseWriter, question *dns.Msg) {
	response := new(dns.Msg)
	response.SetReply(question)
	if question.Opcode == dns.OpcodeUpdate {
		signature := question.IsTsig()
		switch {
		case key != "" && (signature == nil || w.TsigStatus() != nil):
			fmt.Printf("refused %v\n", w.TsigStatus())
			response.Rcode = dns.RcodeNotAuth
		case len(question.Question) != 1 || !strings.EqualFold(question.Question[0].Name, zone):
			response.Rcode = dns.RcodeNotZone
		default:
			for _, record := range question.Ns {
				if code := r.change(record); code != dns.RcodeSuccess {
					response.Rcode = code
				}
			}
		}
		if signature != nil && w.TsigStatus() == nil {
			response.SetTsig(signature.Hdr.Name, signature.Algorithm, 300, int64(signature.TimeSigned))
		}
		_ = w.WriteMsg(response)
		return
	}
	for _, asked := range question.Question {
		name := strings.ToLower(asked.Name)
		if target, ok := r.aliases[name]; ok {
			alias, _ := dns.NewRR(asked.Name + " 0 IN CNAME " + target)
			response.Answer = append(response.Answer, alias)
			name = target
		}
		if found, code, ok := r.fromOthers(name, asked.Qtype); ok {
			response.Answer = append(response.Answer, found...)
			response.Rcode = code
			continue
		}
		head := dns.RR_Header{Name: name, Rrtype: asked.Qtype, Class: dns.ClassINET}
		switch asked.Qtype {
		case dns.TypeA:
			a, _ := dns.NewRR(asked.Name + " 0 IN A 127.0.0.1")
			response.Answer = append(response.Answer, a)
		case dns.TypeTXT:
			for _, text := range r.of(name) {
				txt := &dns.TXT{Hdr: head, Txt: []string{text}}
				response.Answer = append(response.Answer, txt)
			}
		case dns.TypeSOA:
			soa, _ := dns.NewRR(zone + " 0 IN SOA ns." + zone + " root." + zone + " 1 60 60 60 60")
			response.Ns = append(response.Ns, soa)
		}
	}
	_ = w.WriteMsg(response)
}

func main() {
	zone := flag.String("zone", "test.", "the zone that takes updates")
	key := flag.String("key", "", "name of the key that has to sign updates")
	secret := flag.String("secret", "", "the key in base64")
	file := flag.String("records", "", "a file with a name and a text in each line")
	aliases := map[string]string{}
	flag.Func("alias", "NAME=TARGET, with dots at their ends", func(word string) error {
		name, target, ok := strings.Cut(word, "=")
		if !ok {
			return fmt.Errorf("no target")
		}
		aliases[name] = target
		return nil
	})
	delegated := map[string][]string{}
	flag.Func("delegate", "ZONE=ADDRESS,ADDRESS..., with a dot at its end", func(word string) error {
		zone, servers, ok := strings.Cut(word, "=")
		if !ok {
			return fmt.Errorf("no name server")
		}
		delegated[zone] = strings.Split(servers, ",")
		return nil
	})
	flag.Parse()
	all := &records{
		texts: map[string][]string{}, file: *file, aliases: aliases,
		delegated: delegated, asked: map[string]int{},
	}
	handler := dns.HandlerFunc(func(w dns.ResponseWriter, question *dns.Msg) {
		all.answer(*zone, *key, w, question)
	})
	packets, listener, err := sockets()
	if err != nil {
		log.Fatal(err)
	}
	failed := make(chan error)
	for _, server := range []*dns.Server{{PacketConn: packets}, {Listener: listener}} {
		server.Handler = handler
		// Without this, updates are not even looked at.
		server.MsgAcceptFunc = func(dns.Header) dns.MsgAcceptAction { return dns.MsgAccept }
		if *key != "" {
			server.TsigSecret = map[string]string{*key: *secret}
		}
		go func() { failed <- server.ActivateAndServe() }()
	}
	fmt.Printf("port %d\n", listener.Addr().(*net.TCPAddr).Port)
	log.Fatal(<-failed)
}

// A port of 127.0.0.1 that is free for both UDP and TCP.
func sockets() (net.PacketConn, net.Listener, error) {
	var err error
	for attempt := 0; attempt < 100; attempt++ {
		var packets net.PacketConn
		if packets, err = net.ListenPacket("udp", "127.0.0.1:0"); err != nil {
			continue
		}
		var listener net.Listener
		if listener, err = net.Listen("tcp", packets.LocalAddr().String()); err == nil {
			return packets, listener, nil
		}
		packets.Close()
	}
	return nil, nil, err
}
