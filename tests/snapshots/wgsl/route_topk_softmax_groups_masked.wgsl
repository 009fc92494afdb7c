@group(0) @binding(5) var<storage, read_write> v21: array<f32>;
@group(0) @binding(4) var<storage, read_write> v17: array<vec4<f32>>;
@group(0) @binding(3) var<storage, read_write> v13: array<f32>;
@group(0) @binding(2) var<storage, read_write> v9: array<u32>;
@group(0) @binding(1) var<storage, read> v5: array<vec4<u32>>;
@group(0) @binding(0) var<storage, read> v1: array<vec4<f32>>;
struct info_st { scalars_usize: array<u32, 4>, scalars_f32: array<f32, 2>, static_meta: array<u32, 6> }
@group(0) @binding(6) var<storage, read> info_var: info_st;
@compute @workgroup_size(64, 1, 1)
fn route_topk_softmax_groups_masked(@builtin(workgroup_id) v831: vec3<u32>, @builtin(num_workgroups) v833: vec3<u32>, @builtin(local_invocation_index) v840: u32) {
let v870 = &v21;
let v871 = &v17;
let v872 = &v13;
let v873 = &v9;
let v874 = &v5;
let v875 = &v1;
let v3 = u32(0);
let v25 = info_var.scalars_usize[0];
let v26 = info_var.scalars_usize[1];
let v27 = info_var.scalars_usize[2];
let v28 = info_var.scalars_f32[0];
let v832 = v831[2];
let v740 = u32(v832);
let v834 = v833[1];
let v742 = u32(v834);
let v743 = v740 * v742;
let v835 = v833[0];
let v745 = u32(v835);
let v746 = v743 * v745;
let v836 = v831[1];
let v748 = u32(v836);
let v751 = v748 * v745;
let v752 = v746 + v751;
let v838 = v831[0];
let v754 = u32(v838);
let v755 = v752 + v754;
let v866 = u32(64);
let v758 = v755 * v866;
let v841 = v840;
let v760 = u32(v841);
let v761 = v758 + v760;
let v30 = v761 < v25;
if v30 {
let v32 = v761 * v26;
let v34 = v761 * v27;
let v35 = f32(0.0);
let v36 = vec4<f32>(v35);
let v37 = f32(-3.4028234663852886e38);
let v38 = vec4<f32>(v37);
var<function> v567_store: vec4<f32>;
let v567 = &v567_store;
*v567 = v38;
let v41 = u32(1);
for(var v42: u32 = v3; v42 < v26; v42 += v41) {
let v44 = v32 + v42;
let v48 = &(*v875)[v44];
let v49 = *v48;
let v53 = &(*v874)[v42];
let v54 = u32(0);
let v55 = vec4<u32>(v54);
let v56 = *v53;
let v57 = v56 != v55;
let v58 = select(v38, v49, v57);
let v59 = *v567;
let v60 = max(v59, v58);
*v567 = v60;

}
let v61 = *v567;
let v62 = v61[0];
var<function> v569_store: f32;
let v569 = &v569_store;
*v569 = v62;
let v64 = *v567;
let v65 = v64[1];
let v66 = *v569;
let v67 = max(v66, v65);
*v569 = v67;
let v68 = *v567;
let v69 = v68[2];
let v70 = *v569;
let v71 = max(v70, v69);
*v569 = v71;
let v72 = *v567;
let v73 = v72[3];
let v74 = *v569;
let v75 = max(v74, v73);
*v569 = v75;
var<function> v570_store: vec4<f32>;
let v570 = &v570_store;
*v570 = v36;
for(var v79: u32 = v3; v79 < v26; v79 += v41) {
let v81 = v32 + v79;
let v85 = &(*v875)[v81];
let v86 = *v85;
let v87 = *v569;
let v88 = vec4<f32>(v87);
let v89 = v86 - v88;
let v90 = exp(v89);
let v94 = &(*v874)[v79];
let v95 = u32(0);
let v96 = vec4<u32>(v95);
let v97 = *v94;
let v98 = v97 != v96;
let v99 = select(v36, v90, v98);
let v100 = *v570;
let v101 = v100 + v99;
*v570 = v101;
let v106 = &(*v871)[v81];
*v106 = v99;

}
let v107 = *v570;
var<function> v720_store: f32;
let v720 = &v720_store;
*v720 = v35;
let v575 = v107[0];
let v576 = *v720;
let v577 = v576 + v575;
*v720 = v577;
let v578 = v107[1];
let v579 = *v720;
let v580 = v579 + v578;
*v720 = v580;
let v581 = v107[2];
let v582 = *v720;
let v583 = v582 + v581;
*v720 = v583;
let v584 = v107[3];
let v585 = *v720;
let v586 = v585 + v584;
*v720 = v586;
let v587 = *v720;
for(var v111: u32 = v3; v111 < v26; v111 += v41) {
let v113 = v32 + v111;
let v117 = &(*v871)[v113];
let v118 = *v117;
let v119 = vec4<f32>(v587);
let v120 = v118 / v119;
let v124 = &(*v874)[v111];
let v125 = u32(0);
let v126 = vec4<u32>(v125);
let v127 = *v124;
let v128 = v127 != v126;
let v129 = select(v36, v120, v128);
*v117 = v129;

}
let v135 = log(v587);
let v136 = *v569;
let v137 = v136 + v135;
let v142 = &(*v870)[v761];
*v142 = v137;
let v143 = u32(8);
let v144 = v26 / v143;
var<function> v589_store: array<u32, 8>= array<u32, 8>();
let v589 = &v589_store;
for(var v152: u32 = v3; v152 < v143; v152 += v41) {
let v154 = u32(0);
let v155 = vec4<u32>(v154);
var<function> v591_store: vec4<u32>;
let v591 = &v591_store;
*v591 = v155;
var<function> v592_store: vec4<u32>;
let v592 = &v592_store;
*v592 = v155;
let v160 = v152 * v144;
let v162 = v152 + v41;
let v163 = v162 * v144;
for(var v165: u32 = v160; v165 < v163; v165 += v41) {
let v167 = v32 + v165;
let v171 = &(*v871)[v167];
let v172 = *v171;
let v173 = u32(2147483648);
let v174 = vec4<u32>(v173);
let v175 = bitcast<vec4<u32>>(v172);
let v176 = v175 == v174;
let v179 = select(v175, v155, v176);
let v180 = v179 < v174;
let v181 = v179 | v174;
let v182 = ~v179;
let v183 = select(v182, v181, v180);
let v184 = u32(2147483647);
let v185 = vec4<u32>(v184);
let v186 = v179 & v185;
let v187 = u32(2139095040);
let v188 = vec4<u32>(v187);
let v189 = v186 > v188;
let v192 = select(v183, v155, v189);
let v193 = u32(1);
let v194 = vec4<u32>(v193);
let v195 = v192 + v194;
let v201 = &(*v874)[v165];
let v204 = *v201;
let v205 = v204 != v155;
let v206 = select(v155, v195, v205);
let v207 = *v591;
let v208 = min(v207, v206);
let v209 = *v592;
let v210 = max(v209, v208);
*v592 = v210;
let v211 = *v591;
let v212 = max(v211, v206);
*v591 = v212;

}
let v213 = *v591;
let v214 = v213[0];
var<function> v594_store: u32;
let v594 = &v594_store;
*v594 = v214;
let v216 = *v592;
let v217 = v216[0];
var<function> v595_store: u32;
let v595 = &v595_store;
*v595 = v217;
let v219 = *v591;
let v220 = v219[1];
let v221 = *v592;
let v222 = v221[1];
let v223 = *v595;
let v224 = max(v223, v222);
let v225 = *v594;
let v226 = min(v225, v220);
let v227 = max(v224, v226);
*v595 = v227;
let v228 = *v594;
let v229 = max(v228, v220);
*v594 = v229;
let v230 = *v591;
let v231 = v230[2];
let v232 = *v592;
let v233 = v232[2];
let v234 = *v595;
let v235 = max(v234, v233);
let v236 = *v594;
let v237 = min(v236, v231);
let v238 = max(v235, v237);
*v595 = v238;
let v239 = *v594;
let v240 = max(v239, v231);
*v594 = v240;
let v241 = *v591;
let v242 = v241[3];
let v243 = *v592;
let v244 = v243[3];
let v245 = *v595;
let v246 = max(v245, v244);
let v247 = *v594;
let v248 = min(v247, v242);
let v249 = max(v246, v248);
*v595 = v249;
let v250 = *v594;
let v251 = max(v250, v242);
*v594 = v251;
var<function> v596_store: u32;
let v596 = &v596_store;
*v596 = v154;
let v255 = *v594;
let v257 = v255 > v154;
if v257 {
let v259 = u32(1);
let v260 = v255 - v259;
let v261 = u32(2147483648);
let v262 = v260 < v261;
let v263 = ~v260;
let v264 = u32(2147483647);
let v265 = v260 & v264;
let v266 = select(v265, v263, v262);
let v267 = bitcast<f32>(v266);
var<function> v597_store: f32;
let v597 = &v597_store;
*v597 = v267;
let v269 = *v595;
let v271 = v269 > v154;
if v271 {
let v274 = v269 - v259;
let v276 = v274 < v261;
let v277 = ~v274;
let v279 = v274 & v264;
let v280 = select(v279, v277, v276);
let v281 = bitcast<f32>(v280);
let v282 = *v597;
let v283 = v282 + v281;
*v597 = v283;

}
let v284 = *v597;
let v286 = bitcast<u32>(v284);
let v287 = v286 == v261;
let v289 = select(v286, v154, v287);
let v290 = v289 < v261;
let v291 = v289 | v261;
let v292 = ~v289;
let v293 = select(v292, v291, v290);
let v295 = v289 & v264;
let v296 = u32(2139095040);
let v297 = v295 > v296;
let v299 = select(v293, v154, v297);
let v301 = v299 + v259;
*v596 = v301;

}
let v305 = &(*v589)[v152];
let v306 = *v596;
*v305 = v306;

}
let v308 = u32(4);
for(var v310: u32 = v3; v310 < v308; v310 += v41) {
var<function> v599_store: u32;
let v599 = &v599_store;
*v599 = v3;
let v315 = u32(0);
var<function> v600_store: u32;
let v600 = &v600_store;
*v600 = v315;
for(var v321: u32 = v3; v321 < v143; v321 += v41) {
let v326 = &(*v589)[v321];
let v327 = *v326;
let v328 = *v600;
let v329 = v327 > v328;
var<function> v602_store: bool;
let v602 = &v602_store;
if v329 {
let v330 = u32(4294967295);
let v331 = v327 != v330;
*v602 = v331;

} else {
let v333 = false;
*v602 = v333;

}
let v334 = *v602;
if v334 {
*v600 = v327;
*v599 = v321;

}

}
let v335 = *v600;
let v337 = v335 > v315;
if v337 {
let v340 = *v599;
let v342 = &(*v589)[v340];
let v343 = u32(4294967295);
*v342 = v343;

}

}
let v344 = u32(4294967295);
var<function> v603_store: u32;
let v603 = &v603_store;
*v603 = v344;
let v347 = u32(0);
var<function> v604_store: u32;
let v604 = &v604_store;
*v604 = v347;
for(var v352: u32 = v3; v352 < v27; v352 += v41) {
let v355 = vec4<u32>(v347);
var<function> v606_store: vec4<u32>;
let v606 = &v606_store;
*v606 = v355;
var<function> v607_store: vec4<u32>;
let v607 = &v607_store;
*v607 = v355;
for(var v365: u32 = v3; v365 < v143; v365 += v41) {
let v370 = &(*v589)[v365];
let v371 = *v370;
let v373 = v371 == v344;
if v373 {
let v374 = v365 * v144;
let v376 = v365 + v41;
let v377 = v376 * v144;
var<function> v609_store: vec4<u32>;
let v609 = &v609_store;
*v609 = v355;
var<function> v610_store: vec4<u32>;
let v610 = &v610_store;
let v382 = *v609;
*v610 = v382;
let v383 = *v610;
let v385 = vec4<u32>(v347, v383[1], v383[2], v383[3]);
*v610 = v385;
let v386 = *v610;
let v387 = u32(1);
let v388 = vec4<u32>(v386[0], v387, v386[2], v386[3]);
*v610 = v388;
let v389 = *v610;
let v390 = u32(2);
let v391 = vec4<u32>(v389[0], v389[1], v390, v389[3]);
*v610 = v391;
let v392 = *v610;
let v393 = u32(3);
let v394 = vec4<u32>(v392[0], v392[1], v392[2], v393);
*v610 = v394;
let v395 = *v603;
let v396 = vec4<u32>(v395);
let v397 = *v604;
let v398 = vec4<u32>(v397);
for(var v400: u32 = v374; v400 < v377; v400 += v41) {
let v403 = v400 * v308;
let v404 = u32(v403);
let v405 = vec4<u32>(v404);
let v406 = *v610;
let v407 = v406 + v405;
let v408 = v32 + v400;
let v412 = &(*v875)[v408];
let v413 = *v412;
let v414 = u32(2147483648);
let v415 = vec4<u32>(v414);
let v416 = bitcast<vec4<u32>>(v413);
let v417 = v416 == v415;
let v420 = select(v416, v355, v417);
let v421 = v420 < v415;
let v422 = v420 | v415;
let v423 = ~v420;
let v424 = select(v423, v422, v421);
let v425 = u32(2147483647);
let v426 = vec4<u32>(v425);
let v427 = v420 & v426;
let v428 = u32(2139095040);
let v429 = vec4<u32>(v428);
let v430 = v427 > v429;
let v433 = select(v424, v355, v430);
let v435 = vec4<u32>(v387);
let v436 = v433 + v435;
let v442 = &(*v874)[v400];
let v445 = *v442;
let v446 = v445 != v355;
let v447 = select(v355, v436, v446);
let v448 = v407 > v398;
let v449 = v447 == v396;
let v612 = false;
let v613 = vec4<bool>(v612);
var<function> v721_store: vec4<bool>;
let v721 = &v721_store;
*v721 = v613;
var<function> v722_store: vec4<bool>;
let v722 = &v722_store;
let v616 = *v721;
*v722 = v616;
let v617 = v449[0];
var<function> v723_store: bool;
let v723 = &v723_store;
if v617 {
let v618 = v448[0];
*v723 = v618;

} else {
*v723 = v612;

}
let v621 = *v722;
let v622 = *v723;
let v623 = vec4<bool>(v622, v621[1], v621[2], v621[3]);
*v722 = v623;
let v624 = v449[1];
var<function> v724_store: bool;
let v724 = &v724_store;
if v624 {
let v625 = v448[1];
*v724 = v625;

} else {
*v724 = v612;

}
let v628 = *v722;
let v629 = *v724;
let v630 = vec4<bool>(v628[0], v629, v628[2], v628[3]);
*v722 = v630;
let v631 = v449[2];
var<function> v725_store: bool;
let v725 = &v725_store;
if v631 {
let v632 = v448[2];
*v725 = v632;

} else {
*v725 = v612;

}
let v635 = *v722;
let v636 = *v725;
let v637 = vec4<bool>(v635[0], v635[1], v636, v635[3]);
*v722 = v637;
let v638 = v449[3];
var<function> v726_store: bool;
let v726 = &v726_store;
if v638 {
let v639 = v448[3];
*v726 = v639;

} else {
*v726 = v612;

}
let v642 = *v722;
let v643 = *v726;
let v644 = vec4<bool>(v642[0], v642[1], v642[2], v643);
*v722 = v644;
let v645 = *v722;
let v451 = v447 < v396;
var<function> v727_store: vec4<bool>;
let v727 = &v727_store;
*v727 = v613;
var<function> v728_store: vec4<bool>;
let v728 = &v728_store;
let v650 = *v727;
*v728 = v650;
let v651 = v451[0];
let v652 = true;
var<function> v729_store: bool;
let v729 = &v729_store;
if v651 {
*v729 = v652;

} else {
let v655 = v645[0];
*v729 = v655;

}
let v656 = *v728;
let v657 = *v729;
let v658 = vec4<bool>(v657, v656[1], v656[2], v656[3]);
*v728 = v658;
let v659 = v451[1];
var<function> v730_store: bool;
let v730 = &v730_store;
if v659 {
*v730 = v652;

} else {
let v663 = v645[1];
*v730 = v663;

}
let v664 = *v728;
let v665 = *v730;
let v666 = vec4<bool>(v664[0], v665, v664[2], v664[3]);
*v728 = v666;
let v667 = v451[2];
var<function> v731_store: bool;
let v731 = &v731_store;
if v667 {
*v731 = v652;

} else {
let v671 = v645[2];
*v731 = v671;

}
let v672 = *v728;
let v673 = *v731;
let v674 = vec4<bool>(v672[0], v672[1], v673, v672[3]);
*v728 = v674;
let v675 = v451[3];
var<function> v732_store: bool;
let v732 = &v732_store;
if v675 {
*v732 = v652;

} else {
let v679 = v645[3];
*v732 = v679;

}
let v680 = *v728;
let v681 = *v732;
let v682 = vec4<bool>(v680[0], v680[1], v680[2], v681);
*v728 = v682;
let v683 = *v728;
let v453 = *v606;
let v454 = v447 > v453;
var<function> v733_store: vec4<bool>;
let v733 = &v733_store;
*v733 = v613;
var<function> v734_store: vec4<bool>;
let v734 = &v734_store;
let v688 = *v733;
*v734 = v688;
let v689 = v454[0];
var<function> v735_store: bool;
let v735 = &v735_store;
if v689 {
let v690 = v683[0];
*v735 = v690;

} else {
*v735 = v612;

}
let v693 = *v734;
let v694 = *v735;
let v695 = vec4<bool>(v694, v693[1], v693[2], v693[3]);
*v734 = v695;
let v696 = v454[1];
var<function> v736_store: bool;
let v736 = &v736_store;
if v696 {
let v697 = v683[1];
*v736 = v697;

} else {
*v736 = v612;

}
let v700 = *v734;
let v701 = *v736;
let v702 = vec4<bool>(v700[0], v701, v700[2], v700[3]);
*v734 = v702;
let v703 = v454[2];
var<function> v737_store: bool;
let v737 = &v737_store;
if v703 {
let v704 = v683[2];
*v737 = v704;

} else {
*v737 = v612;

}
let v707 = *v734;
let v708 = *v737;
let v709 = vec4<bool>(v707[0], v707[1], v708, v707[3]);
*v734 = v709;
let v710 = v454[3];
var<function> v738_store: bool;
let v738 = &v738_store;
if v710 {
let v711 = v683[3];
*v738 = v711;

} else {
*v738 = v612;

}
let v714 = *v734;
let v715 = *v738;
let v716 = vec4<bool>(v714[0], v714[1], v714[2], v715);
*v734 = v716;
let v717 = *v734;
let v456 = *v606;
let v457 = select(v456, v447, v717);
*v606 = v457;
let v458 = *v607;
let v459 = select(v458, v407, v717);
*v607 = v459;

}

}

}
let v460 = *v606;
let v461 = v460[0];
var<function> v718_store: u32;
let v718 = &v718_store;
*v718 = v461;
let v463 = *v607;
let v464 = v463[0];
var<function> v719_store: u32;
let v719 = &v719_store;
*v719 = v464;
let v466 = *v606;
let v467 = v466[1];
let v468 = *v607;
let v469 = v468[1];
let v470 = *v718;
let v471 = v467 > v470;
let v473 = v467 == v470;
let v474 = *v719;
let v475 = v469 < v474;
let v476 = v473 && v475;
let v477 = v471 || v476;
let v479 = select(v470, v467, v477);
*v718 = v479;
let v480 = *v719;
let v481 = select(v480, v469, v477);
*v719 = v481;
let v482 = *v606;
let v483 = v482[2];
let v484 = *v607;
let v485 = v484[2];
let v486 = *v718;
let v487 = v483 > v486;
let v489 = v483 == v486;
let v490 = *v719;
let v491 = v485 < v490;
let v492 = v489 && v491;
let v493 = v487 || v492;
let v495 = select(v486, v483, v493);
*v718 = v495;
let v496 = *v719;
let v497 = select(v496, v485, v493);
*v719 = v497;
let v498 = *v606;
let v499 = v498[3];
let v500 = *v607;
let v501 = v500[3];
let v502 = *v718;
let v503 = v499 > v502;
let v505 = v499 == v502;
let v506 = *v719;
let v507 = v501 < v506;
let v508 = v505 && v507;
let v509 = v503 || v508;
let v511 = select(v502, v499, v509);
*v718 = v511;
let v512 = *v719;
let v513 = select(v512, v501, v509);
*v719 = v513;
let v514 = *v718;
let v516 = v514 > v347;
if v516 {
*v603 = v514;
let v518 = *v719;
*v604 = v518;
let v519 = *v719;
let v520 = u32(v519);
let v522 = v520 / v308;
let v523 = v32 + v522;
let v527 = v520 % v308;
let v528 = v34 + v352;
let v532 = &(*v873)[v528];
*v532 = v519;
let v537 = &(*v871)[v523];
let v538 = *v537;
let v539 = v538[v527];
let v540 = v28 * v539;
let v545 = &(*v872)[v528];
*v545 = v540;

} else {
let v547 = v26 * v308;
let v548 = u32(v547);
let v549 = v34 + v352;
let v553 = &(*v873)[v549];
*v553 = v548;
let v558 = &(*v872)[v549];
*v558 = v35;

}

}

}
return;

}
