var<workgroup> shared_v29: array<vec4<f32>, 20>;
var<workgroup> shared_v33: array<vec4<f32>, 320>;
@group(0) @binding(4) var<storage, read_write> v17: array<f32>;
@group(0) @binding(3) var<storage, read> v13: array<vec4<f32>>;
@group(0) @binding(2) var<storage, read> v9: array<u32>;
@group(0) @binding(1) var<storage, read> v5: array<u32>;
@group(0) @binding(0) var<storage, read> v1: array<vec4<f32>>;
struct info_st { scalars_usize: array<u32, 8>, static_meta: array<u32, 6> }
@group(0) @binding(5) var<storage, read> info_var: info_st;
@compute @workgroup_size(64, 1, 1)
fn grouped_gemm_gemv_f32_gather_mish(@builtin(workgroup_id) v928: vec3<u32>, @builtin(local_invocation_index) v931: u32, @builtin(local_invocation_id) v941: vec3<u32>) {
let v1027 = &v17;
let v1028 = &v13;
let v1029 = &v9;
let v1030 = &v5;
let v1031 = &v1;
let v3 = u32(0);
let v21 = info_var.scalars_usize[0];
let v22 = info_var.scalars_usize[1];
let v23 = info_var.scalars_usize[2];
let v27 = info_var.scalars_usize[6];
let v28 = info_var.scalars_usize[7];
let v913 = &shared_v29;
let v914 = &shared_v33;
var<function> v915_store: array<f32, 4>= array<f32, 4>();
let v915 = &v915_store;
let v39 = u32(4);
let v45 = &(*v915)[v3];
let v46 = f32(0.0);
*v45 = v46;
let v49 = u32(1);
let v51 = &(*v915)[v49];
*v51 = v46;
let v55 = u32(2);
let v57 = &(*v915)[v55];
*v57 = v46;
let v61 = u32(3);
let v63 = &(*v915)[v61];
*v63 = v46;
let v929 = v928[0];
let v66 = u32(v929);
let v68 = v66 * v61;
let v72 = &(*v1029)[v68];
let v73 = *v72;
let v74 = u32(v73);
let v76 = v68 + v49;
let v80 = &(*v1029)[v76];
let v81 = *v80;
let v82 = u32(v81);
let v84 = v68 + v55;
let v88 = &(*v1029)[v84];
let v89 = *v88;
let v90 = u32(v89);
let v930 = v928[1];
let v92 = u32(v930);
let v93 = u32(64);
let v94 = v92 * v93;
let v95 = v74 >= v27;
let v96 = v74 < v28;
let v97 = v95 && v96;
if v97 {
let v99 = u32(16);
for(var v100: u32 = v3; v100 < v22; v100 += v99) {
let v932 = v931;
let v103 = u32(v932);
let v107 = v103 < v99;
if v107 {
let v109 = v103 / v39;
let v111 = v103 % v39;
let v112 = v82 + v109;
let v114 = v90 - v49;
let v115 = min(v112, v114);
let v119 = &(*v1030)[v115];
let v120 = *v119;
let v121 = u32(v120);
let v122 = v121 / v23;
let v124 = v39 * v111;
let v125 = v100 + v124;
let v127 = vec4<f32>(v46);
var<function> v917_store: vec4<f32>;
let v917 = &v917_store;
*v917 = v127;
let v129 = v125 < v22;
if v129 {
let v130 = v122 * v22;
let v131 = v130 + v125;
let v133 = v131 / v39;
let v137 = &(*v1031)[v133];
let v138 = *v137;
*v917 = v138;

}
let v139 = u32(5);
let v140 = v109 * v139;
let v141 = v140 + v111;
let v145 = &(*v913)[v141];
let v146 = *v917;
*v145 = v146;

}
let v147 = v74 - v27;
let v148 = v147 * v21;
let v155 = u32(256);
let v156 = v103 < v155;
if v156 {
let v158 = v103 / v39;
let v160 = v103 % v39;
let v162 = v158 / v93;
let v164 = v158 % v93;
let v165 = v94 + v164;
let v167 = v21 - v49;
let v168 = min(v165, v167);
let v169 = v162 * v21;
let v170 = v148 + v169;
let v171 = v170 + v168;
let v173 = v39 * v160;
let v174 = v100 + v173;
let v176 = vec4<f32>(v46);
var<function> v918_store: vec4<f32>;
let v918 = &v918_store;
*v918 = v176;
let v178 = v174 < v22;
if v178 {
let v179 = v171 * v22;
let v180 = v179 + v174;
let v182 = v180 / v39;
let v186 = &(*v1028)[v182];
let v187 = *v186;
*v918 = v187;

}
let v188 = u32(5);
let v189 = v158 * v188;
let v190 = v189 + v160;
let v194 = &(*v914)[v190];
let v195 = *v918;
*v194 = v195;

}
let v199 = v103 + v93;
let v201 = v199 < v155;
if v201 {
let v203 = v199 / v39;
let v205 = v199 % v39;
let v207 = v203 / v93;
let v209 = v203 % v93;
let v210 = v94 + v209;
let v212 = v21 - v49;
let v213 = min(v210, v212);
let v214 = v207 * v21;
let v215 = v148 + v214;
let v216 = v215 + v213;
let v218 = v39 * v205;
let v219 = v100 + v218;
let v221 = vec4<f32>(v46);
var<function> v919_store: vec4<f32>;
let v919 = &v919_store;
*v919 = v221;
let v223 = v219 < v22;
if v223 {
let v224 = v216 * v22;
let v225 = v224 + v219;
let v227 = v225 / v39;
let v231 = &(*v1028)[v227];
let v232 = *v231;
*v919 = v232;

}
let v233 = u32(5);
let v234 = v203 * v233;
let v235 = v234 + v205;
let v239 = &(*v914)[v235];
let v240 = *v919;
*v239 = v240;

}
let v243 = u32(128);
let v244 = v103 + v243;
let v246 = v244 < v155;
if v246 {
let v248 = v244 / v39;
let v250 = v244 % v39;
let v252 = v248 / v93;
let v254 = v248 % v93;
let v255 = v94 + v254;
let v257 = v21 - v49;
let v258 = min(v255, v257);
let v259 = v252 * v21;
let v260 = v148 + v259;
let v261 = v260 + v258;
let v263 = v39 * v250;
let v264 = v100 + v263;
let v266 = vec4<f32>(v46);
var<function> v920_store: vec4<f32>;
let v920 = &v920_store;
*v920 = v266;
let v268 = v264 < v22;
if v268 {
let v269 = v261 * v22;
let v270 = v269 + v264;
let v272 = v270 / v39;
let v276 = &(*v1028)[v272];
let v277 = *v276;
*v920 = v277;

}
let v278 = u32(5);
let v279 = v248 * v278;
let v280 = v279 + v250;
let v284 = &(*v914)[v280];
let v285 = *v920;
*v284 = v285;

}
let v288 = u32(192);
let v289 = v103 + v288;
let v291 = v289 < v155;
if v291 {
let v293 = v289 / v39;
let v295 = v289 % v39;
let v297 = v293 / v93;
let v299 = v293 % v93;
let v300 = v94 + v299;
let v302 = v21 - v49;
let v303 = min(v300, v302);
let v304 = v297 * v21;
let v305 = v148 + v304;
let v306 = v305 + v303;
let v308 = v39 * v295;
let v309 = v100 + v308;
let v311 = vec4<f32>(v46);
var<function> v921_store: vec4<f32>;
let v921 = &v921_store;
*v921 = v311;
let v313 = v309 < v22;
if v313 {
let v314 = v306 * v22;
let v315 = v314 + v309;
let v317 = v315 / v39;
let v321 = &(*v1028)[v317];
let v322 = *v321;
*v921 = v322;

}
let v323 = u32(5);
let v324 = v293 * v323;
let v325 = v324 + v295;
let v329 = &(*v914)[v325];
let v330 = *v921;
*v329 = v330;

}
workgroupBarrier();
for(var v334: u32 = v3; v334 < v39; v334 += v49) {
var<function> v923_store: array<vec4<f32>, 4>= array<vec4<f32>, 4>();
let v923 = &v923_store;
let v344 = u32(5);
let v350 = &(*v913)[v334];
let v351 = *v350;
let v356 = &(*v923)[v3];
*v356 = v351;
let v363 = v344 + v334;
let v367 = &(*v913)[v363];
let v368 = *v367;
let v373 = &(*v923)[v49];
*v373 = v368;
let v1012 = u32(10);
let v380 = v1012 + v334;
let v384 = &(*v913)[v380];
let v385 = *v384;
let v390 = &(*v923)[v55];
*v390 = v385;
let v1008 = u32(15);
let v397 = v1008 + v334;
let v401 = &(*v913)[v397];
let v402 = *v401;
let v407 = &(*v923)[v61];
*v407 = v402;
let v942 = v941[0];
let v409 = u32(v942);
let v413 = v409 * v344;
let v414 = v413 + v334;
let v418 = &(*v914)[v414];
let v419 = *v418;
let v425 = *v45;
let v431 = *v356;
let v432 = v431[0];
let v433 = v419[0];
let v434 = fma(v432, v433, v425);
*v45 = v434;
let v445 = *v45;
let v451 = *v356;
let v452 = v451[1];
let v453 = v419[1];
let v454 = fma(v452, v453, v445);
*v45 = v454;
let v465 = *v45;
let v471 = *v356;
let v472 = v471[2];
let v473 = v419[2];
let v474 = fma(v472, v473, v465);
*v45 = v474;
let v485 = *v45;
let v491 = *v356;
let v492 = v491[3];
let v493 = v419[3];
let v494 = fma(v492, v493, v485);
*v45 = v494;
let v505 = *v51;
let v511 = *v373;
let v512 = v511[0];
let v514 = fma(v512, v433, v505);
*v51 = v514;
let v525 = *v51;
let v531 = *v373;
let v532 = v531[1];
let v534 = fma(v532, v453, v525);
*v51 = v534;
let v545 = *v51;
let v551 = *v373;
let v552 = v551[2];
let v554 = fma(v552, v473, v545);
*v51 = v554;
let v565 = *v51;
let v571 = *v373;
let v572 = v571[3];
let v574 = fma(v572, v493, v565);
*v51 = v574;
let v585 = *v57;
let v591 = *v390;
let v592 = v591[0];
let v594 = fma(v592, v433, v585);
*v57 = v594;
let v605 = *v57;
let v611 = *v390;
let v612 = v611[1];
let v614 = fma(v612, v453, v605);
*v57 = v614;
let v625 = *v57;
let v631 = *v390;
let v632 = v631[2];
let v634 = fma(v632, v473, v625);
*v57 = v634;
let v645 = *v57;
let v651 = *v390;
let v652 = v651[3];
let v654 = fma(v652, v493, v645);
*v57 = v654;
let v665 = *v63;
let v671 = *v407;
let v672 = v671[0];
let v674 = fma(v672, v433, v665);
*v63 = v674;
let v685 = *v63;
let v691 = *v407;
let v692 = v691[1];
let v694 = fma(v692, v453, v685);
*v63 = v694;
let v705 = *v63;
let v711 = *v407;
let v712 = v711[2];
let v714 = fma(v712, v473, v705);
*v63 = v714;
let v725 = *v63;
let v731 = *v407;
let v732 = v731[3];
let v734 = fma(v732, v493, v725);
*v63 = v734;

}
workgroupBarrier();

}
let v944 = v941[0];
let v749 = u32(v944);
let v750 = v94 + v749;
let v753 = v82 < v90;
let v754 = v750 < v21;
let v755 = v753 && v754;
if v755 {
let v761 = *v45;
let v765 = f32(20.0);
let v766 = v761 < v765;
let v767 = select(v765, v761, v766);
let v768 = exp(v767);
let v769 = f32(2.0);
let v770 = v768 + v769;
let v771 = v768 * v770;
let v772 = v761 * v771;
let v774 = v771 + v769;
let v775 = v772 / v774;
var<function> v924_store: f32;
let v924 = &v924_store;
*v924 = v775;
let v777 = *v924;
let v778 = v82 * v21;
let v779 = v778 + v750;
let v783 = &(*v1027)[v779];
*v783 = v777;

}
let v788 = v82 + v49;
let v794 = v788 < v90;
let v796 = v794 && v754;
if v796 {
let v802 = *v51;
let v806 = f32(20.0);
let v807 = v802 < v806;
let v808 = select(v806, v802, v807);
let v809 = exp(v808);
let v810 = f32(2.0);
let v811 = v809 + v810;
let v812 = v809 * v811;
let v813 = v802 * v812;
let v815 = v812 + v810;
let v816 = v813 / v815;
var<function> v925_store: f32;
let v925 = &v925_store;
*v925 = v816;
let v818 = *v925;
let v819 = v788 * v21;
let v820 = v819 + v750;
let v824 = &(*v1027)[v820];
*v824 = v818;

}
let v829 = v82 + v55;
let v835 = v829 < v90;
let v837 = v835 && v754;
if v837 {
let v843 = *v57;
let v847 = f32(20.0);
let v848 = v843 < v847;
let v849 = select(v847, v843, v848);
let v850 = exp(v849);
let v851 = f32(2.0);
let v852 = v850 + v851;
let v853 = v850 * v852;
let v854 = v843 * v853;
let v856 = v853 + v851;
let v857 = v854 / v856;
var<function> v926_store: f32;
let v926 = &v926_store;
*v926 = v857;
let v859 = *v926;
let v860 = v829 * v21;
let v861 = v860 + v750;
let v865 = &(*v1027)[v861];
*v865 = v859;

}
let v870 = v82 + v61;
let v876 = v870 < v90;
let v878 = v876 && v754;
if v878 {
let v884 = *v63;
let v888 = f32(20.0);
let v889 = v884 < v888;
let v890 = select(v888, v884, v889);
let v891 = exp(v890);
let v892 = f32(2.0);
let v893 = v891 + v892;
let v894 = v891 * v893;
let v895 = v884 * v894;
let v897 = v894 + v892;
let v898 = v895 / v897;
var<function> v927_store: f32;
let v927 = &v927_store;
*v927 = v898;
let v900 = *v927;
let v901 = v870 * v21;
let v902 = v901 + v750;
let v906 = &(*v1027)[v902];
*v906 = v900;

}

}
return;

}
