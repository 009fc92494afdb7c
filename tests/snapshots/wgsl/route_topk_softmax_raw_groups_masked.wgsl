@group(0) @binding(5) var<storage, read_write> v21: array<f32>;
@group(0) @binding(4) var<storage, read_write> v17: array<vec4<f32>>;
@group(0) @binding(3) var<storage, read_write> v13: array<f32>;
@group(0) @binding(2) var<storage, read_write> v9: array<u32>;
@group(0) @binding(1) var<storage, read> v5: array<vec4<u32>>;
@group(0) @binding(0) var<storage, read> v1: array<vec4<f32>>;
struct info_st { scalars_usize: array<u32, 4>, scalars_f32: array<f32, 2>, static_meta: array<u32, 6> }
@group(0) @binding(6) var<storage, read> info_var: info_st;
@compute @workgroup_size(64, 1, 1)
fn route_topk_softmax_raw_groups_masked(@builtin(workgroup_id) v854: vec3<u32>, @builtin(num_workgroups) v856: vec3<u32>, @builtin(local_invocation_index) v863: u32) {
let v893 = &v21;
let v894 = &v17;
let v895 = &v13;
let v896 = &v9;
let v897 = &v5;
let v898 = &v1;
let v3 = u32(0);
let v25 = info_var.scalars_usize[0];
let v26 = info_var.scalars_usize[1];
let v27 = info_var.scalars_usize[2];
let v28 = info_var.scalars_f32[0];
let v855 = v854[2];
let v763 = u32(v855);
let v857 = v856[1];
let v765 = u32(v857);
let v766 = v763 * v765;
let v858 = v856[0];
let v768 = u32(v858);
let v769 = v766 * v768;
let v859 = v854[1];
let v771 = u32(v859);
let v774 = v771 * v768;
let v775 = v769 + v774;
let v861 = v854[0];
let v777 = u32(v861);
let v778 = v775 + v777;
let v889 = u32(64);
let v781 = v778 * v889;
let v864 = v863;
let v783 = u32(v864);
let v784 = v781 + v783;
let v30 = v784 < v25;
if v30 {
let v32 = v784 * v26;
let v34 = v784 * v27;
let v35 = f32(0.0);
let v36 = vec4<f32>(v35);
let v37 = f32(-3.4028234663852886e38);
let v38 = vec4<f32>(v37);
var<function> v590_store: vec4<f32>;
let v590 = &v590_store;
*v590 = v38;
let v41 = u32(1);
for(var v42: u32 = v3; v42 < v26; v42 += v41) {
let v44 = v32 + v42;
let v48 = &(*v898)[v44];
let v49 = *v48;
let v53 = &(*v897)[v42];
let v54 = u32(0);
let v55 = vec4<u32>(v54);
let v56 = *v53;
let v57 = v56 != v55;
let v58 = select(v38, v49, v57);
let v59 = *v590;
let v60 = max(v59, v58);
*v590 = v60;

}
let v61 = *v590;
let v62 = v61[0];
var<function> v592_store: f32;
let v592 = &v592_store;
*v592 = v62;
let v64 = *v590;
let v65 = v64[1];
let v66 = *v592;
let v67 = max(v66, v65);
*v592 = v67;
let v68 = *v590;
let v69 = v68[2];
let v70 = *v592;
let v71 = max(v70, v69);
*v592 = v71;
let v72 = *v590;
let v73 = v72[3];
let v74 = *v592;
let v75 = max(v74, v73);
*v592 = v75;
var<function> v593_store: vec4<f32>;
let v593 = &v593_store;
*v593 = v36;
for(var v79: u32 = v3; v79 < v26; v79 += v41) {
let v81 = v32 + v79;
let v85 = &(*v898)[v81];
let v86 = *v85;
let v87 = *v592;
let v88 = vec4<f32>(v87);
let v89 = v86 - v88;
let v90 = bitcast<vec4<u32>>(v89);
let v91 = u32(2147483647);
let v92 = vec4<u32>(v91);
let v93 = v90 & v92;
let v94 = u32(2139095040);
let v95 = vec4<u32>(v94);
let v96 = v93 > v95;
let v97 = exp(v89);
let v98 = select(v97, v89, v96);
let v102 = &(*v897)[v79];
let v103 = u32(0);
let v104 = vec4<u32>(v103);
let v105 = *v102;
let v106 = v105 != v104;
let v107 = select(v36, v98, v106);
let v108 = *v593;
let v109 = v108 + v107;
*v593 = v109;
let v114 = &(*v894)[v81];
*v114 = v107;

}
let v115 = *v593;
var<function> v743_store: f32;
let v743 = &v743_store;
*v743 = v35;
let v598 = v115[0];
let v599 = *v743;
let v600 = v599 + v598;
*v743 = v600;
let v601 = v115[1];
let v602 = *v743;
let v603 = v602 + v601;
*v743 = v603;
let v604 = v115[2];
let v605 = *v743;
let v606 = v605 + v604;
*v743 = v606;
let v607 = v115[3];
let v608 = *v743;
let v609 = v608 + v607;
*v743 = v609;
let v610 = *v743;
for(var v119: u32 = v3; v119 < v26; v119 += v41) {
let v121 = v32 + v119;
let v125 = &(*v894)[v121];
let v126 = *v125;
let v127 = vec4<f32>(v610);
let v128 = v126 / v127;
let v132 = &(*v897)[v119];
let v133 = u32(0);
let v134 = vec4<u32>(v133);
let v135 = *v132;
let v136 = v135 != v134;
let v137 = select(v36, v128, v136);
*v125 = v137;

}
let v143 = bitcast<u32>(v610);
let v144 = u32(2147483647);
let v145 = v143 & v144;
let v146 = u32(2139095040);
let v147 = v145 > v146;
let v148 = log(v610);
let v149 = *v592;
let v150 = v149 + v148;
let v151 = bitcast<u32>(v150);
let v152 = select(v151, v143, v147);
let v153 = u32(0);
let v154 = v143 == v153;
let v155 = u32(4286578688);
let v156 = select(v152, v155, v154);
let v157 = bitcast<f32>(v156);
let v162 = &(*v893)[v784];
*v162 = v157;
let v163 = u32(8);
let v164 = v26 / v163;
var<function> v612_store: array<u32, 8>= array<u32, 8>();
let v612 = &v612_store;
for(var v172: u32 = v3; v172 < v163; v172 += v41) {
let v175 = vec4<u32>(v153);
var<function> v614_store: vec4<u32>;
let v614 = &v614_store;
*v614 = v175;
var<function> v615_store: vec4<u32>;
let v615 = &v615_store;
*v615 = v175;
let v180 = v172 * v164;
let v182 = v172 + v41;
let v183 = v182 * v164;
for(var v185: u32 = v180; v185 < v183; v185 += v41) {
let v187 = v32 + v185;
let v191 = &(*v894)[v187];
let v192 = *v191;
let v193 = u32(2147483648);
let v194 = vec4<u32>(v193);
let v195 = bitcast<vec4<u32>>(v192);
let v196 = v195 == v194;
let v199 = select(v195, v175, v196);
let v200 = v199 < v194;
let v201 = v199 | v194;
let v202 = ~v199;
let v203 = select(v202, v201, v200);
let v206 = vec4<u32>(v144);
let v207 = v195 & v206;
let v209 = vec4<u32>(v146);
let v210 = v207 > v209;
let v213 = select(v203, v175, v210);
let v214 = u32(1);
let v215 = vec4<u32>(v214);
let v216 = v213 + v215;
let v222 = &(*v897)[v185];
let v225 = *v222;
let v226 = v225 != v175;
let v227 = select(v175, v216, v226);
let v228 = *v614;
let v229 = min(v228, v227);
let v230 = *v615;
let v231 = max(v230, v229);
*v615 = v231;
let v232 = *v614;
let v233 = max(v232, v227);
*v614 = v233;

}
let v234 = *v614;
let v235 = v234[0];
var<function> v617_store: u32;
let v617 = &v617_store;
*v617 = v235;
let v237 = *v615;
let v238 = v237[0];
var<function> v618_store: u32;
let v618 = &v618_store;
*v618 = v238;
let v240 = *v614;
let v241 = v240[1];
let v242 = *v615;
let v243 = v242[1];
let v244 = *v618;
let v245 = max(v244, v243);
let v246 = *v617;
let v247 = min(v246, v241);
let v248 = max(v245, v247);
*v618 = v248;
let v249 = *v617;
let v250 = max(v249, v241);
*v617 = v250;
let v251 = *v614;
let v252 = v251[2];
let v253 = *v615;
let v254 = v253[2];
let v255 = *v618;
let v256 = max(v255, v254);
let v257 = *v617;
let v258 = min(v257, v252);
let v259 = max(v256, v258);
*v618 = v259;
let v260 = *v617;
let v261 = max(v260, v252);
*v617 = v261;
let v262 = *v614;
let v263 = v262[3];
let v264 = *v615;
let v265 = v264[3];
let v266 = *v618;
let v267 = max(v266, v265);
let v268 = *v617;
let v269 = min(v268, v263);
let v270 = max(v267, v269);
*v618 = v270;
let v271 = *v617;
let v272 = max(v271, v263);
*v617 = v272;
var<function> v619_store: u32;
let v619 = &v619_store;
*v619 = v153;
let v276 = *v617;
let v278 = v276 > v153;
if v278 {
let v280 = u32(1);
let v281 = v276 - v280;
let v282 = u32(2147483648);
let v283 = v281 < v282;
let v284 = ~v281;
let v286 = v281 & v144;
let v287 = select(v286, v284, v283);
let v288 = bitcast<f32>(v287);
var<function> v620_store: f32;
let v620 = &v620_store;
*v620 = v288;
let v290 = *v618;
let v292 = v290 > v153;
if v292 {
let v295 = v290 - v280;
let v297 = v295 < v282;
let v298 = ~v295;
let v300 = v295 & v144;
let v301 = select(v300, v298, v297);
let v302 = bitcast<f32>(v301);
let v303 = *v620;
let v304 = v303 + v302;
*v620 = v304;

}
let v305 = *v620;
let v307 = bitcast<u32>(v305);
let v308 = v307 == v282;
let v310 = select(v307, v153, v308);
let v311 = v310 < v282;
let v312 = v310 | v282;
let v313 = ~v310;
let v314 = select(v313, v312, v311);
let v317 = v307 & v144;
let v319 = v317 > v146;
let v321 = select(v314, v153, v319);
let v323 = v321 + v280;
*v619 = v323;

}
let v327 = &(*v612)[v172];
let v328 = *v619;
*v327 = v328;

}
let v330 = u32(4);
for(var v332: u32 = v3; v332 < v330; v332 += v41) {
var<function> v622_store: u32;
let v622 = &v622_store;
*v622 = v3;
var<function> v623_store: u32;
let v623 = &v623_store;
*v623 = v153;
for(var v343: u32 = v3; v343 < v163; v343 += v41) {
let v348 = &(*v612)[v343];
let v349 = *v348;
let v350 = *v623;
let v351 = v349 > v350;
var<function> v625_store: bool;
let v625 = &v625_store;
if v351 {
let v352 = u32(4294967295);
let v353 = v349 != v352;
*v625 = v353;

} else {
let v355 = false;
*v625 = v355;

}
let v356 = *v625;
if v356 {
*v623 = v349;
*v622 = v343;

}

}
let v357 = *v623;
let v359 = v357 > v153;
if v359 {
let v362 = *v622;
let v364 = &(*v612)[v362];
let v365 = u32(4294967295);
*v364 = v365;

}

}
let v366 = u32(4294967295);
var<function> v626_store: u32;
let v626 = &v626_store;
*v626 = v366;
var<function> v627_store: u32;
let v627 = &v627_store;
*v627 = v153;
for(var v374: u32 = v3; v374 < v27; v374 += v41) {
let v377 = vec4<u32>(v153);
var<function> v629_store: vec4<u32>;
let v629 = &v629_store;
*v629 = v377;
var<function> v630_store: vec4<u32>;
let v630 = &v630_store;
*v630 = v377;
for(var v387: u32 = v3; v387 < v163; v387 += v41) {
let v392 = &(*v612)[v387];
let v393 = *v392;
let v395 = v393 == v366;
if v395 {
let v396 = v387 * v164;
let v398 = v387 + v41;
let v399 = v398 * v164;
var<function> v632_store: vec4<u32>;
let v632 = &v632_store;
*v632 = v377;
var<function> v633_store: vec4<u32>;
let v633 = &v633_store;
let v404 = *v632;
*v633 = v404;
let v405 = *v633;
let v407 = vec4<u32>(v153, v405[1], v405[2], v405[3]);
*v633 = v407;
let v408 = *v633;
let v409 = u32(1);
let v410 = vec4<u32>(v408[0], v409, v408[2], v408[3]);
*v633 = v410;
let v411 = *v633;
let v412 = u32(2);
let v413 = vec4<u32>(v411[0], v411[1], v412, v411[3]);
*v633 = v413;
let v414 = *v633;
let v415 = u32(3);
let v416 = vec4<u32>(v414[0], v414[1], v414[2], v415);
*v633 = v416;
let v417 = *v626;
let v418 = vec4<u32>(v417);
let v419 = *v627;
let v420 = vec4<u32>(v419);
for(var v422: u32 = v396; v422 < v399; v422 += v41) {
let v425 = v422 * v330;
let v426 = u32(v425);
let v427 = vec4<u32>(v426);
let v428 = *v633;
let v429 = v428 + v427;
let v430 = v32 + v422;
let v434 = &(*v898)[v430];
let v435 = *v434;
let v436 = u32(2147483648);
let v437 = vec4<u32>(v436);
let v438 = bitcast<vec4<u32>>(v435);
let v439 = v438 == v437;
let v442 = select(v438, v377, v439);
let v443 = v442 < v437;
let v444 = v442 | v437;
let v445 = ~v442;
let v446 = select(v445, v444, v443);
let v449 = vec4<u32>(v144);
let v450 = v438 & v449;
let v452 = vec4<u32>(v146);
let v453 = v450 > v452;
let v456 = select(v446, v377, v453);
let v458 = vec4<u32>(v409);
let v459 = v456 + v458;
let v465 = &(*v897)[v422];
let v468 = *v465;
let v469 = v468 != v377;
let v470 = select(v377, v459, v469);
let v471 = v429 > v420;
let v472 = v470 == v418;
let v635 = false;
let v636 = vec4<bool>(v635);
var<function> v744_store: vec4<bool>;
let v744 = &v744_store;
*v744 = v636;
var<function> v745_store: vec4<bool>;
let v745 = &v745_store;
let v639 = *v744;
*v745 = v639;
let v640 = v472[0];
var<function> v746_store: bool;
let v746 = &v746_store;
if v640 {
let v641 = v471[0];
*v746 = v641;

} else {
*v746 = v635;

}
let v644 = *v745;
let v645 = *v746;
let v646 = vec4<bool>(v645, v644[1], v644[2], v644[3]);
*v745 = v646;
let v647 = v472[1];
var<function> v747_store: bool;
let v747 = &v747_store;
if v647 {
let v648 = v471[1];
*v747 = v648;

} else {
*v747 = v635;

}
let v651 = *v745;
let v652 = *v747;
let v653 = vec4<bool>(v651[0], v652, v651[2], v651[3]);
*v745 = v653;
let v654 = v472[2];
var<function> v748_store: bool;
let v748 = &v748_store;
if v654 {
let v655 = v471[2];
*v748 = v655;

} else {
*v748 = v635;

}
let v658 = *v745;
let v659 = *v748;
let v660 = vec4<bool>(v658[0], v658[1], v659, v658[3]);
*v745 = v660;
let v661 = v472[3];
var<function> v749_store: bool;
let v749 = &v749_store;
if v661 {
let v662 = v471[3];
*v749 = v662;

} else {
*v749 = v635;

}
let v665 = *v745;
let v666 = *v749;
let v667 = vec4<bool>(v665[0], v665[1], v665[2], v666);
*v745 = v667;
let v668 = *v745;
let v474 = v470 < v418;
var<function> v750_store: vec4<bool>;
let v750 = &v750_store;
*v750 = v636;
var<function> v751_store: vec4<bool>;
let v751 = &v751_store;
let v673 = *v750;
*v751 = v673;
let v674 = v474[0];
let v675 = true;
var<function> v752_store: bool;
let v752 = &v752_store;
if v674 {
*v752 = v675;

} else {
let v678 = v668[0];
*v752 = v678;

}
let v679 = *v751;
let v680 = *v752;
let v681 = vec4<bool>(v680, v679[1], v679[2], v679[3]);
*v751 = v681;
let v682 = v474[1];
var<function> v753_store: bool;
let v753 = &v753_store;
if v682 {
*v753 = v675;

} else {
let v686 = v668[1];
*v753 = v686;

}
let v687 = *v751;
let v688 = *v753;
let v689 = vec4<bool>(v687[0], v688, v687[2], v687[3]);
*v751 = v689;
let v690 = v474[2];
var<function> v754_store: bool;
let v754 = &v754_store;
if v690 {
*v754 = v675;

} else {
let v694 = v668[2];
*v754 = v694;

}
let v695 = *v751;
let v696 = *v754;
let v697 = vec4<bool>(v695[0], v695[1], v696, v695[3]);
*v751 = v697;
let v698 = v474[3];
var<function> v755_store: bool;
let v755 = &v755_store;
if v698 {
*v755 = v675;

} else {
let v702 = v668[3];
*v755 = v702;

}
let v703 = *v751;
let v704 = *v755;
let v705 = vec4<bool>(v703[0], v703[1], v703[2], v704);
*v751 = v705;
let v706 = *v751;
let v476 = *v629;
let v477 = v470 > v476;
var<function> v756_store: vec4<bool>;
let v756 = &v756_store;
*v756 = v636;
var<function> v757_store: vec4<bool>;
let v757 = &v757_store;
let v711 = *v756;
*v757 = v711;
let v712 = v477[0];
var<function> v758_store: bool;
let v758 = &v758_store;
if v712 {
let v713 = v706[0];
*v758 = v713;

} else {
*v758 = v635;

}
let v716 = *v757;
let v717 = *v758;
let v718 = vec4<bool>(v717, v716[1], v716[2], v716[3]);
*v757 = v718;
let v719 = v477[1];
var<function> v759_store: bool;
let v759 = &v759_store;
if v719 {
let v720 = v706[1];
*v759 = v720;

} else {
*v759 = v635;

}
let v723 = *v757;
let v724 = *v759;
let v725 = vec4<bool>(v723[0], v724, v723[2], v723[3]);
*v757 = v725;
let v726 = v477[2];
var<function> v760_store: bool;
let v760 = &v760_store;
if v726 {
let v727 = v706[2];
*v760 = v727;

} else {
*v760 = v635;

}
let v730 = *v757;
let v731 = *v760;
let v732 = vec4<bool>(v730[0], v730[1], v731, v730[3]);
*v757 = v732;
let v733 = v477[3];
var<function> v761_store: bool;
let v761 = &v761_store;
if v733 {
let v734 = v706[3];
*v761 = v734;

} else {
*v761 = v635;

}
let v737 = *v757;
let v738 = *v761;
let v739 = vec4<bool>(v737[0], v737[1], v737[2], v738);
*v757 = v739;
let v740 = *v757;
let v479 = *v629;
let v480 = select(v479, v470, v740);
*v629 = v480;
let v481 = *v630;
let v482 = select(v481, v429, v740);
*v630 = v482;

}

}

}
let v483 = *v629;
let v484 = v483[0];
var<function> v741_store: u32;
let v741 = &v741_store;
*v741 = v484;
let v486 = *v630;
let v487 = v486[0];
var<function> v742_store: u32;
let v742 = &v742_store;
*v742 = v487;
let v489 = *v629;
let v490 = v489[1];
let v491 = *v630;
let v492 = v491[1];
let v493 = *v741;
let v494 = v490 > v493;
let v496 = v490 == v493;
let v497 = *v742;
let v498 = v492 < v497;
let v499 = v496 && v498;
let v500 = v494 || v499;
let v502 = select(v493, v490, v500);
*v741 = v502;
let v503 = *v742;
let v504 = select(v503, v492, v500);
*v742 = v504;
let v505 = *v629;
let v506 = v505[2];
let v507 = *v630;
let v508 = v507[2];
let v509 = *v741;
let v510 = v506 > v509;
let v512 = v506 == v509;
let v513 = *v742;
let v514 = v508 < v513;
let v515 = v512 && v514;
let v516 = v510 || v515;
let v518 = select(v509, v506, v516);
*v741 = v518;
let v519 = *v742;
let v520 = select(v519, v508, v516);
*v742 = v520;
let v521 = *v629;
let v522 = v521[3];
let v523 = *v630;
let v524 = v523[3];
let v525 = *v741;
let v526 = v522 > v525;
let v528 = v522 == v525;
let v529 = *v742;
let v530 = v524 < v529;
let v531 = v528 && v530;
let v532 = v526 || v531;
let v534 = select(v525, v522, v532);
*v741 = v534;
let v535 = *v742;
let v536 = select(v535, v524, v532);
*v742 = v536;
let v537 = *v741;
let v539 = v537 > v153;
if v539 {
*v626 = v537;
let v541 = *v742;
*v627 = v541;
let v542 = *v742;
let v543 = u32(v542);
let v545 = v543 / v330;
let v546 = v32 + v545;
let v550 = v543 % v330;
let v551 = v34 + v374;
let v555 = &(*v896)[v551];
*v555 = v542;
let v560 = &(*v894)[v546];
let v561 = *v560;
let v562 = v561[v550];
let v563 = v28 * v562;
let v568 = &(*v895)[v551];
*v568 = v563;

} else {
let v570 = v26 * v330;
let v571 = u32(v570);
let v572 = v34 + v374;
let v576 = &(*v896)[v572];
*v576 = v571;
let v581 = &(*v895)[v572];
*v581 = v35;

}

}

}
return;

}
